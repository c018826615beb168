package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"flow/db"
	"flow/starlark/diag"
	"flow/workflows/record"
)

func newSQLCommand(a *app) *cobra.Command {
	var format string
	var asJSON bool
	var limit int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "sql QUERY",
		Short: "Ask the records a question in SQL, read-only",
		Long: `sql answers one SELECT over the views of the records: sessions, groups, arms, requests, metrics, samples,
gates, pairs, levers, gains, champions, noise, and more. It cannot change anything. "-" reads the query
from standard input. flow doc sql describes every view, with examples.`,
		Example: `  flow sql 'select name, verdict, effect_pct, low_pct, high_pct from groups'
  flow sql --format csv 'select * from arms' > arms.csv
  echo 'select * from champions' | flow sql -`,
		Args: workflowArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				format = "json"
			}
			write, err := tableWriter(format)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usage("flow sql", fmt.Sprintf("got a limit of %d rows, want 0 (all) or more", limit), "flow sql --limit 0 QUERY")
			}
			query := args[0]
			if query == "-" {
				b, err := io.ReadAll(a.stdin)
				if err != nil {
					return &diag.Error{Kind: diag.Machine, Op: "flow sql", Msg: "standard input", Err: err}
				}
				query = string(b)
			}
			return askSQL(cmd.Context(), a, query, limit, timeout, write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "table", "table, csv, json or md")
	f.BoolVar(&asJSON, "json", false, "the same as --format json")
	f.IntVar(&limit, "limit", 1000, "at most this many rows; 0 is all")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "give up after this long; 0 is never")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"table", "csv", "json", "md"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func askSQL(ctx context.Context, a *app, query string, limit int, timeout time.Duration, write func(io.Writer, *record.Table) error) error {
	d, err := db.OpenReadOnly(ctx, a.dbPath)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	ask := limit
	if limit > 0 {
		ask++ // one more tells whether there are more
	}
	if timeout > 0 { // of the query, not of opening the file
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	t, err := d.Query(ctx, query, nil, ask)
	if err != nil {
		return pointAt(query, err)
	}
	more := limit > 0 && len(t.Rows) > limit
	if more {
		t.Rows = t.Rows[:limit]
	}
	if err := write(a.stdout, t); err != nil {
		return err
	}
	for _, name := range db.QuotedNames(query) {
		fmt.Fprintf(a.stderr, "flow: warning: \"%s\" in double quotes is the column of that name; the text is '%s', in single quotes\n", name, strings.ReplaceAll(name, "'", "''"))
	}
	if more {
		fmt.Fprintf(a.stderr, "flow: only the first %d rows; --limit 0 gives all\n", limit)
	}
	return nil
}

// pointAt shows the line of the query with a caret under the place of the mistake.
func pointAt(query string, err error) error {
	var e *diag.Error
	if !errors.As(err, &e) || e.Pos.Line == 0 {
		return err
	}
	line := strings.Split(query, "\n")[e.Pos.Line-1]
	show := *e
	pad := []rune(line)[:min(e.Pos.Col-1, utf8.RuneCountInString(line))]
	for i, r := range pad {
		if r != '\t' {
			pad[i] = ' '
		}
	}
	show.Msg += "\n\t" + line + "\n\t" + string(pad) + "^"
	return &show
}

// tableWriter gives what prints rows in a format.
func tableWriter(format string) (func(io.Writer, *record.Table) error, error) {
	switch format {
	case "table":
		return func(w io.Writer, t *record.Table) error {
			_, err := fmt.Fprintln(w, prettyTable(t, 100).Render())
			return err
		}, nil
	case "md":
		return func(w io.Writer, t *record.Table) error {
			_, err := fmt.Fprintln(w, prettyTable(t, math.MaxInt).RenderMarkdown())
			return err
		}, nil
	case "csv":
		return writeCSV, nil
	case "json":
		return writeJSONRows, nil
	}
	return nil, usage("flow sql", fmt.Sprintf("got format %q, want table, csv, json or md", format), "flow sql --format csv QUERY")
}

// plainTable is a table without lines between rows, for people.
func plainTable(w table.Writer) table.Writer {
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = false
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	w.SetStyle(style)
	return w
}

func prettyTable(t *record.Table, width int) table.Writer {
	w := plainTable(table.NewWriter())
	w.SuppressTrailingSpaces()
	header := make(table.Row, len(t.Columns))
	configs := make([]table.ColumnConfig, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = c
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if numeric(t, i) {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	w.AppendHeader(header)
	w.SetColumnConfigs(configs)
	for _, r := range t.Rows {
		row := make(table.Row, len(r))
		for i, v := range r {
			row[i] = shorten(cellText(v), width)
		}
		w.AppendRow(row)
	}
	return w
}

// numeric reports whether a column has numbers and nothing else.
func numeric(t *record.Table, i int) bool {
	some := false
	for _, r := range t.Rows {
		switch r[i].(type) {
		case nil:
		case int64, float64:
			some = true
		default:
			return false
		}
	}
	return some
}

// cellText is a value for people: six digits are enough to read, and NULL is said.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	case []byte:
		return "x'" + hex.EncodeToString(v) + "'"
	case string: // one row stays one line, and no text moves the cursor
		return strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				return ' '
			}
			return r // what is no UTF-8 comes as U+FFFD
		}, v)
	}
	return fmt.Sprint(v)
}

// shorten cuts a text to a number of characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// writeCSV keeps full precision; NULL is an empty field.
func writeCSV(w io.Writer, t *record.Table) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.Columns); err != nil {
		return err
	}
	for _, r := range t.Rows {
		row := make([]string, len(r))
		for i, v := range r {
			switch v := v.(type) {
			case nil:
			case string:
				row[i] = v
			case float64:
				row[i] = strconv.FormatFloat(v, 'g', -1, 64)
			case []byte:
				row[i] = hex.EncodeToString(v)
			default:
				row[i] = fmt.Sprint(v)
			}
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// writeJSONRows is an array of objects, their members in the order of the columns. Two columns of one name
// become name and name_2, because an object has each name once.
func writeJSONRows(w io.Writer, t *record.Table) error {
	names := make([][]byte, len(t.Columns))
	taken := map[string]bool{}
	for i, c := range t.Columns {
		name := c
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s_%d", c, n)
		}
		taken[name] = true
		b, err := plainJSON(name)
		if err != nil {
			return err
		}
		names[i] = b
	}
	var b bytes.Buffer
	b.WriteString("[")
	for i, r := range t.Rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		for j, v := range r {
			if j > 0 {
				b.WriteString(", ")
			}
			switch x := v.(type) {
			case []byte:
				v = hex.EncodeToString(x)
			case float64:
				if math.IsInf(x, 0) || math.IsNaN(x) { // JSON has no word for it
					v = nil
				}
			}
			value, err := plainJSON(v)
			if err != nil {
				return err
			}
			b.Write(names[j])
			b.WriteString(": ")
			b.Write(value)
		}
		b.WriteString("}")
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	_, err := w.Write(b.Bytes())
	return err
}

// plainJSON is JSON without HTML escapes.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// indentedJSON is what --json prints of a value.
func indentedJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
