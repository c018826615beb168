package gate

// What the arms of one side show among themselves: two clusters, which no mean or median describes; and how much
// the requests of an arm are worth beyond the arm. Neither is part of a verdict.

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"flow/builtins/stats"
	"flow/workflows/record"
)

// smallestGap is the gap between two clusters of arms below which nothing is said, as a share.
const smallestGap = .005

// bimodal warns about a side whose arms fall into two clusters (stats.Clusters) in the primary metric: two states of
// the machine or the engine. One normal side in a hundred is told of without having any.
func (v *verdict) bimodal(g *record.Group, blocks []BlockState) {
	for _, cs := range casesOf(g.Arms, g.Primary) {
		for _, s := range g.Sides {
			arms, values := sideValues(blocks, s.Label, g.Primary, cs)
			logs, ok := stats.Logs(values)
			if !ok {
				continue
			}
			two, ok := stats.Clusters(logs, math.Log1p(smallestGap))
			if !ok {
				continue
			}
			sorted := slices.Sorted(slices.Values(values)) // as measured: a logarithm and back is not the same number
			low, lowOK := clusterWords(sorted[:len(two.Low)])
			high, highOK := clusterWords(sorted[len(two.Low):])
			if !lowOK || !highOK {
				continue
			}
			few := two.High
			if len(two.Low) < len(two.High) {
				few = two.Low
			}
			var names []string
			first, last, others, otherFirst := math.MaxInt, -1, -1, math.MaxInt
			for i, a := range arms {
				if logs[i] >= few[0] && logs[i] <= few[len(few)-1] {
					names = append(names, armName(a))
					first, last = min(first, a.Seq), max(last, a.Seq)
				} else {
					others, otherFirst = max(others, a.Seq), min(otherFirst, a.Seq)
				}
			}
			when := ""
			switch {
			case first > others:
				when = ", all after the others: something changed before " + names[0]
			case last < otherFirst:
				when = ", all before the others: something changed after " + names[len(names)-1]
			}
			apart, _ := stats.Ratio(two.High[0] - two.Low[len(two.Low)-1])
			v.warn("bimodal: the %d arms of side %s%s fall into two clusters, %s and %s (the %d: %s)%s; with %s between them no median describes both: look for two states of the machine or the engine, such as a clock, a cache, or where threads run",
				len(arms), s.Label, caseWords(cs), low, high, len(few), strings.Join(names, ", "), when, share(apart))
		}
	}
}

// clusterWords is "5 at 100.1 to 100.4 (median 100.2)"; ok is false where that is no number.
func clusterWords(values []float64) (w string, ok bool) {
	m := stats.Median(values)
	return fmt.Sprintf("%d at %s to %s (median %s)", len(values), number(values[0]), number(values[len(values)-1]), number(m)), finite(m) != nil
}

// sideValues is the values of a side's arms in valid blocks, in time.
func sideValues(blocks []BlockState, label, metric, cs string) (arms []*record.Arm, values []float64) {
	for _, b := range blocks {
		for _, a := range b.Arms {
			if !b.Valid || a == nil || a.Label != label {
				continue
			}
			if y, _ := valueOf(a, metric, cs); y != nil {
				arms, values = append(arms, a), append(values, *y)
			}
		}
	}
	return arms, values
}

// smallestEffect is the design effect below which requests are as good as independent.
const smallestEffect = 1.1

// replicates says what the requests of the arms are worth: they share a launch, so that they are no replicates, and
// a reader who counts them sees an interval that is too narrow. The estimate counts arms, whatever this says.
func (v *verdict) replicates(g *record.Group, blocks []BlockState) {
	for _, cs := range casesOf(g.Arms, g.Primary) {
		var sets [][][]float64
		var launch, request []float64 // seconds, of arms whose requests came one after the other
		for _, s := range g.Sides {
			var set [][]float64
			arms, _ := sideValues(blocks, s.Label, g.Primary, cs)
			for _, a := range arms {
				_, y := byPlace(a, g.Primary, cs)
				set = append(set, y)
				if l, r, ok := spent(a); ok {
					launch, request = append(launch, l), append(request, r...)
				}
			}
			sets = append(sets, set)
		}
		n, ok := stats.Within(sets)
		if !ok || n.Effect < smallestEffect {
			continue
		}
		w := fmt.Sprintf("requests are no replicates%s: %d in %d arms, which correlate by %.2g within an arm, are worth %.3g (design effect 1 + (m-1) rho = %.3g); the interval counts arms",
			caseWords(cs), n.Values, n.Units, n.Rho, n.Effective, n.Effect)
		if len(launch) == n.Units {
			w += betterRepeats(n, stats.Median(launch), stats.Median(request))
		}
		v.warn("%s", w)
	}
}

// betterRepeats says how many requests an arm should have where that is far from what it has.
func betterRepeats(n stats.Nested, launch, request float64) string {
	m, ok := stats.BestRepeats(launch, request, n.SDUnit, n.SDValue)
	best := math.Max(1, math.Round(m))
	if !ok || best >= n.M/2 && best <= 2*n.M || best > 1000 {
		return ""
	}
	return fmt.Sprintf("; at %.3g s a launch and %.3g s a request, %.0f an arm would tell most in the same time", launch, request, best)
}

// spent is what an arm took besides its measured requests, and each of these, in seconds; ok is false where requests
// overlapped or have no ends.
func spent(a *record.Arm) (launch float64, requests []float64, ok bool) {
	if a.Load != nil && a.Load.Asked != 1 {
		return 0, nil, false
	}
	launch = float64(a.MonoEndNS-a.MonoStartNS) / 1e9
	for i := range a.Requests {
		q := &a.Requests[i]
		if q.Mark != record.MarkMeasured || q.Status != "ok" {
			continue
		}
		ends := []*int64{q.LastContentNS, q.DoneNS, q.CloseNS}
		ends = slices.DeleteFunc(ends, func(t *int64) bool { return t == nil })
		if q.SentNS == nil || len(ends) == 0 {
			return 0, nil, false
		}
		last := slices.MaxFunc(ends, func(x, y *int64) int { return int(*x - *y) })
		took := float64(*last-*q.SentNS) / 1e9
		requests = append(requests, took)
		launch -= took
	}
	return launch, requests, launch > 0 && len(requests) > 0
}
