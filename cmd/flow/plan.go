package main

// flow plan: what a workflow would run, what it should take, and what it can show, before it starts.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/builtins/gate"
	"flow/builtins/machine"
	"flow/builtins/stats"
	"flow/db"
	"flow/workflows/plan"
	"flow/workflows/record"
)

func newPlanCommand(a *app) *cobra.Command {
	var sets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "What a workflow would run: arms, time, energy, and the smallest effect it can show",
		Long: `Walk through main as flow check does, without touching the machine, and say of each group: its sides, its
order and why the order is so, its arms at least and at most, the time and energy they should take, and the
smallest effect that it can show (with 80 % power at the level of its intervals).

Time, energy and noise come from earlier real sessions of the same engine command on this machine, where the
database has some. Where it has none, flow says so, and how to find out.`,
		Example:           "  flow plan stack-screen.star\n  flow plan stack-screen.star --set tokens=400 --json",
		Args:              workflowArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: starFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			params, err := parseSets(sets, args[0])
			if err != nil {
				return err
			}
			past, err := pastGroups(cmd.Context(), a.dbPath)
			if err != nil {
				return err
			}
			p, err := planFile(cmd.Context(), args[0], params, past)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(p)
			}
			_, err = fmt.Fprint(a.stdout, p.text(widthOf(a.stdout)))
			return err
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "set a parameter, name=value; repeatable")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// pastGroups are the finished real groups of this machine; none where there is no database.
func pastGroups(ctx context.Context, path string) ([]*record.Group, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, nil
	}
	d, err := db.OpenReadOnly(ctx, path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Past(ctx, db.Scope{Machine: machine.Identity(ctx, "/proc", "/sys").ID, Measurer: record.MeasurerReal, Limit: 200})
}

// planned is what a workflow would run.
type planned struct {
	File     string          `json:"file"`
	StandIns []string        `json:"stand_ins,omitempty"` // parameters without a value
	Missing  []string        `json:"missing,omitempty"`   // parameters that are paths of nothing
	Walk     string          `json:"walk"`                // the verdict that every group is taken to have
	ArmsMin  int             `json:"arms_min"`
	ArmsMax  int             `json:"arms_max"`
	Seconds  *float64        `json:"seconds_max"` // nil where an engine has no history
	Joules   *float64        `json:"joules_max"`
	Budget   *plannedBudget  `json:"budget,omitempty"`
	Past     []string        `json:"from_database,omitempty"` // what session.champion and session.history found there
	Groups   []*plannedGroup `json:"groups"`
}

type plannedGroup struct {
	Name      string       `json:"name"`
	Role      string       `json:"role"`
	Sides     []string     `json:"sides"` // "B: fast"
	Order     string       `json:"order"`
	Design    string       `json:"design"`    // what the order cancels, and what not
	Estimator string       `json:"estimator"` // with its own degrees of freedom at the cap
	Stops     []string     `json:"stops"`
	BlocksMin int          `json:"blocks_min"`
	BlocksMax int          `json:"blocks_max"`
	ArmsMin   int          `json:"arms_min"`
	ArmsMax   int          `json:"arms_max"`
	Arms      []plannedArm `json:"arms"` // of the first block
	ArmS      *float64     `json:"arm_seconds"`
	ArmJ      *float64     `json:"arm_joules"`
	NoiseSD   *float64     `json:"noise_sd"` // of an arm, on the logarithm
	NoiseFrom string       `json:"noise_from"`
	MinEffect float64      `json:"min_effect"`
	CanShow   *float64     `json:"smallest_effect"`     // ratio, with the known noise
	CanShowSD *float64     `json:"smallest_effect_sds"` // the same in standard deviations of an arm
	Warnings  []string     `json:"warnings,omitempty"`
}

type plannedArm struct {
	Label string `json:"label"`
	Why   string `json:"why"`
}

// planFile walks main once as if every group were better (the walk that goes on to claims) and once as if
// none were, and shows the longer of the two.
func planFile(ctx context.Context, file string, params map[string]string, past []*record.Group) (*planned, error) {
	w, err := loadWorkflow(ctx, file, loadOptions{params: params, typedHere: true, standIns: true})
	if err != nil {
		return nil, err
	}
	if _, err := w.main(); err != nil {
		return nil, err
	}
	var best *planned
	for _, verdict := range []string{record.Better, record.Inconclusive} {
		kept, err := tried(ctx, "plan", file, func(ctx context.Context) (*beginning, error) { return walk(ctx, w, verdict, past) })
		if err != nil {
			return nil, err
		}
		p := &planned{File: file, Walk: verdict, Past: kept.found}
		for _, g := range kept.groups {
			p.add(planGroup(g, past))
		}
		p.Budget = budgetOf(kept.budget, p)
		if best == nil || p.ArmsMax > best.ArmsMax {
			best = p
		}
	}
	best.Missing = w.missingPaths()
	for _, x := range w.env.Declared() {
		if x.StandIn {
			best.StandIns = append(best.StandIns, x.Name)
		}
	}
	return best, nil
}

func (p *planned) add(g *plannedGroup) {
	first := len(p.Groups) == 0
	p.Groups = append(p.Groups, g)
	p.ArmsMin, p.ArmsMax = p.ArmsMin+g.ArmsMin, p.ArmsMax+g.ArmsMax
	sum := func(total **float64, each *float64) {
		switch {
		case each == nil || !first && *total == nil:
			*total = nil
		case first:
			x := *each * float64(g.ArmsMax)
			*total = &x
		default:
			**total += *each * float64(g.ArmsMax)
		}
	}
	sum(&p.Seconds, g.ArmS)
	sum(&p.Joules, g.ArmJ)
}

// planGroup says what one group takes and shows.
func planGroup(g *record.Group, past []*record.Group) *plannedGroup {
	like := sameCommand(g, past)
	p := &plannedGroup{Name: g.Name, Role: g.Role, Order: g.Order, Stops: g.Stops, MinEffect: g.MinEffect, BlocksMax: g.Cap, BlocksMin: g.Cap}
	shape := &plan.Group{Order: g.Order}
	for _, s := range g.Sides {
		if s.Estimated {
			continue
		}
		shape.Sides = append(shape.Sides, plan.Side{Label: s.Label})
		var names []string
		for _, l := range s.Stack {
			names = append(names, l.Name)
		}
		p.Sides = append(p.Sides, strings.TrimSuffix(s.Label+": "+orText(strings.Join(names, "+"), "no lever"), " "))
	}
	if len(shape.Sides) < 2 {
		return p
	}
	block := shape.BlockAt(0, false)
	if p.Order == "" {
		p.Order = "ABBA and BAAB in turn, the first by coin"
	}
	p.Design = designWords(block, shape.Sides[0].Label, g.Order == "")
	p.Estimator = estimatorWords(block, g)
	p.Arms = armWords(block, g)
	p.ArmS, p.ArmJ = typical(like)
	var noise []record.Noise // what the walk itself invented is none
	n := &record.Group{Primary: g.Primary, Sides: g.Sides, Control: g.Control, SessionID: "plan"}
	if known := gate.KnownNoise(n, like); known != nil {
		p.NoiseSD, p.NoiseFrom = &known.SD, known.From
		noise = []record.Noise{{Metric: g.Primary, SD: known.SD, DF: known.DF, From: known.From}}
		if g.Cold {
			noise = nil // nothing warms its first arm, so nothing is lent: the noise only says what to expect
		}
	}
	x := *g
	x.Noise = noise
	p.BlocksMin = gate.FirstLook(&x)
	p.ArmsMin, p.ArmsMax = p.BlocksMin*len(block.Labels), p.BlocksMax*len(block.Labels)
	if sds, ok := gate.Shows(&x, block); ok {
		p.CanShowSD = &sds
		if p.NoiseSD != nil {
			if r, ok := stats.Ratio(sds * *p.NoiseSD); ok {
				p.CanShow = &r
			}
		}
	}
	if p.CanShow != nil && g.MinEffect > 0 && *p.CanShow > 2*g.MinEffect {
		p.Warnings = append(p.Warnings, fmt.Sprintf("min_effect %s is far below the %s that %s can show: raise the cap with after(blocks = n), or min_effect", percentText(g.MinEffect), percentText(*p.CanShow), countOf(g.Cap, "block")))
	}
	if len(g.Gates) == 0 && (g.Role == record.RoleScreen || g.Role == record.RoleQualification) {
		p.Warnings = append(p.Warnings, "no gate: nothing would notice a broken condition")
	}
	return p
}

// sameCommand are the past groups whose control was the same command, environment, config and request.
func sameCommand(g *record.Group, past []*record.Group) []*record.Group {
	key := func(g *record.Group) plan.Hash {
		for _, s := range g.Sides {
			if s.Label == g.Control {
				c := s.Command
				c.Delta = nil
				return plan.Sum(c)
			}
		}
		return ""
	}
	want := key(g)
	var out []*record.Group
	for _, p := range past {
		if p.Primary == g.Primary && key(p) == want {
			c := *p
			c.Engine, c.Workload, c.Model = "", "", "" // by command: files are not hashed to plan
			out = append(out, &c)
		}
	}
	return out
}

// typical is the middle of what an arm of earlier groups took.
func typical(groups []*record.Group) (seconds, joules *float64) {
	var s, j []float64
	for _, g := range groups {
		for _, a := range g.Arms {
			if a.Disposition != record.OK || a.MonoEndNS <= a.MonoStartNS {
				continue
			}
			s = append(s, float64(a.MonoEndNS-a.MonoStartNS)/1e9)
			sum, any := 0.0, false
			for _, m := range a.Metrics {
				if strings.HasSuffix(m.Name, ".energy_j") && m.Value != nil {
					sum, any = sum+*m.Value, true
				}
			}
			if any {
				j = append(j, sum)
			}
		}
	}
	if len(s) > 0 {
		x := stats.Median(s)
		seconds = &x
	}
	if len(j) > 0 {
		x := stats.Median(j)
		joules = &x
	}
	return seconds, joules
}

func designWords(b plan.Block, control string, alternating bool) string {
	switch {
	case alternating:
		return "a steady drift cancels within a quad, a curved one and a cold first slot over two"
	case b.Kind == "quad":
		return "a steady drift cancels within a quad; a curved one and a cold first slot only where ABBA and BAAB take turns"
	case b.Kind == "ladder":
		return "controls on both sides of every rung: a steady drift cancels; carry-over cannot be told from an effect, so it screens and quads confirm"
	}
	order := make([]bool, len(b.Labels))
	for i, l := range b.Labels {
		order[i] = l != control
	}
	if bias, ok := stats.BiasOf(order); ok && bias.Confounded() {
		return "drift-confounded: a steady drift passes for an effect"
	}
	return "a steady drift cancels"
}

// estimatorWords is how the order is analysed, and on how many degrees of freedom of its own.
func estimatorWords(b plan.Block, g *record.Group) string {
	switch n := g.Cap; {
	case g.Design != "":
		return "factorial model, each block with its own level and drift"
	case b.Kind == "quad":
		return fmt.Sprintf("quad model, %s of its own at the cap", degreesOf(2*n-1))
	case b.Kind == "ladder":
		u := -1.0
		for _, l := range b.Labels {
			if l == g.Control {
				u++
			}
		}
		return fmt.Sprintf("each rung against the control interpolated between its neighbours, %.3g degrees of freedom from the controls", float64(n)*2*u*u/(3*u-1))
	case len(b.Labels)%2 == 0:
		return fmt.Sprintf("pairs in time, %s of their own at the cap", degreesOf(n*len(b.Labels)/2-1))
	}
	return "two samples with one noise"
}

// armWords says why each arm of a block is run.
func armWords(b plan.Block, g *record.Group) []plannedArm {
	out := make([]plannedArm, len(b.Labels))
	seen := map[string]int{}
	for i, l := range b.Labels {
		seen[l]++
		why := "what is compared"
		if l == g.Control {
			why = "control"
		}
		switch {
		case g.Role == record.RoleNoiseFloor:
			why = "the same thing again: what differs is noise"
		case l == g.Control && i == len(b.Labels)-1 && i > 0 && b.Labels[0] == l:
			why = "closing control: what drifted since the first"
		case l == g.Control && b.Kind == "ladder" && i > 0:
			why = "control between rungs"
		case seen[l] > 1:
			why = "a second one in mirrored place: drift cancels, and two show noise"
		}
		out[i] = plannedArm{l, why}
	}
	return out
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func percentText(x float64) string {
	return fmt.Sprintf("%.3g %%", 100*x)
}

// text is the plan in lines of a width. What groups have in common is said at the first of them.
func (p *planned) text(width int) string {
	var b strings.Builder
	head := fmt.Sprintf("%s: %s, %s", p.File, countOf(len(p.Groups), "group"), spanOf(p.ArmsMin, p.ArmsMax, "arm"))
	if p.Seconds != nil {
		head += ", at most about " + secondsText(*p.Seconds)
	}
	if p.Joules != nil {
		head += fmt.Sprintf(", %.3g kJ", *p.Joules/1000)
	}
	b.WriteString(head + ", if every group ends " + p.Walk + "\n")
	line := func(indent, label, text string) {
		for i, l := range foldCell(text, max(minFold, width-len(indent)-cellWidth(label))) {
			if i > 0 {
				label = strings.Repeat(" ", cellWidth(label))
			}
			b.WriteString(indent + label + l + "\n")
		}
	}
	if p.Budget != nil {
		line("  ", "budget of the session: ", strings.Join(p.Budget.Words, "; "))
	}
	if len(p.StandIns) > 0 {
		line("  ", "stand-ins for parameters without a value: ", strings.Join(p.StandIns, ", "))
	}
	for _, words := range p.Missing {
		b.WriteString("  " + words + "\n") // in one line: a path can be copied
	}
	if len(p.Past) > 0 {
		line("  ", "from the database: ", strings.Join(p.Past, "; "))
	}
	var unknown []string
	blocks := map[string]int{} // the block that a group repeats, to the group that explained it
	for i, g := range p.Groups {
		fmt.Fprintf(&b, "\n%d. %s (%s)\n", i+1, g.Name, g.Role)
		line("   ", "sides   ", strings.Join(g.Sides, "; "))
		key := fmt.Sprint(g.Order, g.Design, g.Arms)
		said := blocks[key]
		if said == 0 {
			blocks[key] = i + 1
			line("   ", "order   ", g.Order+": "+g.Design)
		} else {
			line("   ", "order   ", fmt.Sprintf("%s: as in %d", g.Order, said))
		}
		if g.Estimator != "" {
			line("   ", "model   ", g.Estimator)
		}
		arms := fmt.Sprintf("%d", g.ArmsMax)
		if g.ArmsMin < g.ArmsMax {
			arms = fmt.Sprintf("%d to %d", g.ArmsMin, g.ArmsMax)
		}
		arms += fmt.Sprintf(", %s at most", countOf(g.BlocksMax, "block"))
		if len(g.Stops) > 0 {
			arms += "; stops: " + strings.Join(names(g.Stops), ", ")
		}
		line("   ", "arms    ", arms)
		for j, a := range g.Arms {
			if said != 0 {
				break
			}
			if j == 12 {
				fmt.Fprintf(&b, "           … and %d more\n", len(g.Arms)-j)
				break
			}
			line("           ", fmt.Sprintf("%d %s  ", j+1, a.Label), a.Why)
		}
		if g.ArmS != nil {
			words := fmt.Sprintf("%s an arm, at most %s", secondsText(*g.ArmS), secondsText(*g.ArmS*float64(g.ArmsMax)))
			if g.ArmJ != nil {
				words += fmt.Sprintf("; %.4g J an arm, at most %.3g kJ", *g.ArmJ, *g.ArmJ*float64(g.ArmsMax)/1000)
			}
			line("   ", "time    ", words+", from earlier arms of this command")
		} else {
			line("   ", "time    ", "not known: no real arm of this command is in the database")
		}
		switch {
		case g.CanShow != nil:
			line("   ", "shows   ", fmt.Sprintf("from %s at the cap, with a noise of %s an arm (%s); min_effect is %s", percentText(*g.CanShow), percentText(*g.NoiseSD), g.NoiseFrom, percentText(g.MinEffect)))
		case g.CanShowSD != nil:
			unknown = append(unknown, g.Name)
			line("   ", "shows   ", fmt.Sprintf("from %.3g times the noise of an arm at the cap, which is not known; min_effect is %s", *g.CanShowSD, percentText(g.MinEffect)))
		}
		for _, w := range g.Warnings {
			line("   ", "note    ", w)
		}
	}
	if len(unknown) > 0 {
		of := ""
		if len(unknown) < len(p.Groups) {
			of = " for " + strings.Join(slices.Compact(unknown), ", ")
		}
		b.WriteString("\n")
		line("", "", "No noise is known"+of+". Either measure it first, 8 arms of the same thing against itself:")
		b.WriteString("  session.run(noise_floor(engine = …, workload = …, stops = [exactly(2)]))\n")
		line("", "", "(from @flow//screens.star and @flow//stops.star), or take the first quad of the first group as a probe: its own four arms give one degree of freedom, and `flow plan` knows from then on what the rest can show.")
	}
	return b.String()
}

// secondsText rounds a time to what it is known to.
func secondsText(s float64) string {
	d, to := time.Duration(s*float64(time.Second)), time.Second
	switch {
	case d < time.Second:
		to = time.Millisecond
	case d < time.Minute:
		to = 100 * time.Millisecond
	}
	return d.Round(to).String()
}

// countOf is a number of things in words: "1 group", "2 groups".
func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func degreesOf(n int) string { return countOf(n, "degree") + " of freedom" }

// spanOf is the same of a range, which may be of one number.
func spanOf(low, high int, what string) string {
	if low == high {
		return countOf(high, what)
	}
	return fmt.Sprintf("%d to %s", low, countOf(high, what))
}

// names are stops without their parameters.
func names(stops []string) []string {
	var out []string
	for _, s := range stops {
		n, _, _ := strings.Cut(s, " ")
		out = append(out, n)
	}
	return slices.Compact(out)
}
