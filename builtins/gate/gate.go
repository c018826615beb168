// Package gate judges recorded facts: arms against their gates and evidence, groups against their control.
package gate

import (
	"flow/builtins/stats"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// JudgeArm says what an arm counts as: from its disposition so far, its findings and its evidence.
func JudgeArm(a *record.Arm) (disposition, reason string) { return record.OK, "" }

// Contrast says why an arm of the control shows no contrast; "" when it does.
func Contrast(g *record.Group, a *record.Arm) string { return "" }

// KnownNoise is the noise of the primary metric known from earlier groups, newest first; nil when none is.
func KnownNoise(g *record.Group, past []*record.Group) *stats.Noise { return nil }

// Borrow fills g.Noise from earlier groups, newest first, when it is nil. Call it before the first arm.
func Borrow(g *record.Group, past []*record.Group) {}

// Judge fills Comparisons, Verdict, Reason and Warnings from the arms.
func Judge(g *record.Group, past []*record.Group) {}

// BlockState is the latest attempt of a block.
type BlockState struct {
	Index    int
	Attempt  int
	Kind     string // quad, pair, ladder, order
	Labels   []string
	Arms     []*record.Arm // by slot; nil where the arm is missing
	Complete bool
	Valid    bool
	Reason   string // why it is not valid
}

// Blocks reconstructs the blocks of a group from its arms, by index.
func Blocks(g *record.Group) []BlockState { return nil }

// Decided is the stop rule decided(): the reason to stop, or "".
func Decided(g *record.Group) string { return "" }

// Hopeless is the stop rule hopeless(): the reason to stop, or "".
func Hopeless(g *record.Group) string { return "" }

// Watch judges one guard over the samples of one arm.
type Watch struct{}

// NewWatch starts watching.
func NewWatch(g plan.Guard) *Watch { return &Watch{} }

// Sample takes one sample and says what breach it completes; "" when none.
func (w *Watch) Sample(s record.Sample) (breach string) { return "" }

// Finding is the finding of the watch so far.
func (w *Watch) Finding() record.Finding { return record.Finding{} }

// GuardFinding is the finding of a guard: pass when breach is "".
func GuardFinding(g plan.Guard, breach string) record.Finding { return record.Finding{} }

// FindingOf completes what a gate's check returned: names, phase, scope, required; an error is unmeasured.
func FindingOf(g plan.Gate, f record.Finding, err error) record.Finding { return f }
