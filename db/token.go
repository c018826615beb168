package db

import "strings"

// A token of SQL, as far as flow has to understand it: to name the place of an error, the parameters that
// a query has, and its statements. SQLite does the parsing.
type token struct {
	kind byte // w word or quoted name, s text, n number, p parameter, ; end, o anything else
	text string
	at   int // byte offset
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// tokens leaves out spaces and comments. It never fails: an unfinished text or comment ends with the SQL.
func tokens(sql string) []token {
	var out []token
	for i := 0; i < len(sql); {
		start, kind := i, byte('o')
		switch c := sql[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
			continue
		case strings.HasPrefix(sql[i:], "--"):
			i = upTo(sql, i+2, "\n")
			continue
		case strings.HasPrefix(sql[i:], "/*"):
			i = upTo(sql, i+2, "*/")
			continue
		case c == '\'':
			kind, i = 's', quoted(sql, i, '\'')
		case c == '"' || c == '`':
			kind, i = 'w', quoted(sql, i, c)
		case c == '[':
			kind, i = 'w', upTo(sql, i+1, "]")
		case c == '?':
			for kind, i = 'p', i+1; i < len(sql) && sql[i] >= '0' && sql[i] <= '9'; i++ {
			}
		case (c == ':' || c == '@' || c == '$') && i+1 < len(sql) && isWord(sql[i+1]):
			for kind, i = 'p', i+1; i < len(sql) && isWord(sql[i]); i++ {
			}
		case c >= '0' && c <= '9':
			for kind = 'n'; i < len(sql) && (isWord(sql[i]) || sql[i] == '.'); i++ {
			}
		case isWord(c):
			for kind = 'w'; i < len(sql) && isWord(sql[i]); i++ {
			}
		case c == ';':
			kind = ';'
			i++
		default:
			i++
		}
		out = append(out, token{kind, sql[start:i], start})
	}
	return out
}

// upTo is the offset behind the next end, or the end of the SQL.
func upTo(sql string, from int, end string) int {
	if n := strings.Index(sql[from:], end); n >= 0 {
		return from + n + len(end)
	}
	return len(sql)
}

// quoted is the offset behind a quoted text that begins at from; a doubled quote is part of it.
func quoted(sql string, from int, q byte) int {
	for i := from + 1; i < len(sql); i++ {
		if sql[i] != q {
			continue
		}
		if i+1 < len(sql) && sql[i+1] == q {
			i++
			continue
		}
		return i + 1
	}
	return len(sql)
}

// name is a word without its quotes.
func (t token) name() string {
	s := t.text
	if len(s) >= 2 {
		switch s[0] {
		case '"', '`':
			return strings.ReplaceAll(s[1:len(s)-1], s[:1]+s[:1], s[:1])
		case '[':
			return s[1 : len(s)-1]
		}
	}
	return s
}
