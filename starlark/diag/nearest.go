package diag

import (
	"slices"
	"strings"
)

// Nearest is the candidate that name was probably meant to be, "" when none is near: at most a third of its
// letters differ (at least one may). Ties go to the first in alphabetical order, so that messages are stable.
func Nearest(name string, candidates []string) string {
	return nearest(name, candidates, max(1, len(name)/3))
}

// Typo is Nearest where at most two letters differ: so near that name can hardly be meant as it is.
func Typo(name string, candidates []string) string {
	return nearest(name, candidates, min(2, max(1, len(name)/3)))
}

func nearest(name string, candidates []string, most int) string {
	sorted := slices.Clone(candidates)
	slices.Sort(sorted)
	best, bound := "", most+1
	for _, c := range sorted {
		if d := distance(strings.ToLower(name), strings.ToLower(c)); d < bound && d < max(len(name), len(c)) {
			best, bound = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, change, or swap with their neighbour.
func distance(a, b string) int {
	prev, cur := make([]int, len(b)+1), make([]int, len(b)+1)
	var before []int
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, make([]int, len(b)+1)
	}
	return prev[len(b)]
}
