package stats

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// sections is where the figures of each section of the specification of the statistics are tested: here, and in
// builtins/gate (with gate. before the name) where a judgement is asked.
var sections = []struct { // never written to
	section, about string
	tests          []string
}{
	{"3.1", "order designs and ladders", []string{"TestSection31Biases", "TestSection31Rules", "TestSection31Ladder", "TestSection31LadderCarryOver",
		"TestSection31RungCorrelation", "TestSection31RungContrast", "TestSection31VonNeumann"}},
	{"3.2", "unit of analysis", []string{"TestSection32Quads", "TestSection32Trend", "TestSection32TrendLevel", "TestSection32NoResidualVariation",
		"TestSection32PairVariance", "TestSection32Pairing", "TestSection32And33MannWhitney"}},
	{"3.3", "five pairs", []string{"TestSection33Pairs", "TestSection33FivePairs", "TestSection33MedianInterval"}},
	{"3.4", "what n can say", []string{"TestSection34Attainability", "TestSection34ZFormula", "TestSection34Zeros", "TestSection34Bootstrap",
		"TestSection34BootstrapCoverage", "gate.TestSection34Normality"}},
	{"3.5", "borrowing noise", []string{"TestSection35Floor", "TestSection35Pool", "TestSection35Bartlett", "TestSection35Borrowing"}},
	{"3.6", "verdicts beyond p", []string{"TestSection36MinimumEffectAndTOST", "TestSection36Verdicts"}},
	{"3.7", "stopping", []string{"TestSection37Peeking", "TestSection37Looks", "TestSection37GroupSequentialT", "TestSection372Spending",
		"TestSection37EProcess", "TestSection373Ceilings", "TestSection373Sequence", "TestSection373Simulated", "TestSection374Known",
		"TestSection374FixedRadius", "TestSection37SignE", "TestSection375SignE", "TestSection375AllIn"}},
	{"3.8", "many levers", []string{"TestSection38Corrections", "TestSection38FamilyErrors", "TestSection38Costs", "TestSection38PlackettBurman",
		"TestSection38PlackettBurmanIsOrthogonal", "TestSection38Fraction", "TestSection38Interaction", "TestSection38Shrink", "TestSection38WinnersCurse"}},
	{"4", "orientation, coverage", []string{"TestSection4Coverage", "TestSection4CoverageOfTrend", "TestSection4CoverageOfWorld"}},
	{"4", "standard error", []string{"TestSection4FalsePositives"}},
	{"4", "borrowed noise", []string{"TestSection4Borrowed", "TestSection4FullTrust", "gate.TestSection4SeedNoise"}},
	{"4", "number of quads", []string{"TestSection4QuadTables", "gate.TestSection4LooksAndShows"}},
	{"4", "sequential, on quads", []string{"TestSection4EProcessErrors"}},
	{"4", "ladders", []string{"gate.TestSection4SeedLadder"}},
	{"4", "the seeds' own rule", []string{"TestSection4SeedsRule"}},
	{"4", "calibration", []string{"TestSection4SessionsPerCell"}},
	{"4", "search", []string{"TestSection4Search"}},
}

// The list of tests by section is complete: each name is a test, and each test that is named by a section stands in
// the list.
func TestSectionsAreListed(t *testing.T) {
	have := map[string]bool{}
	for prefix, dir := range map[string]string{"": ".", "gate.": "../gate"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "TestSection") && fn.Recv == nil {
					have[prefix+fn.Name.Name] = true
				}
			}
		}
	}
	delete(have, "TestSectionsAreListed")
	for _, s := range sections {
		mark := "TestSection" + strings.ReplaceAll(s.section, ".", "")
		for _, name := range s.tests {
			if !have[name] {
				t.Errorf("%s, %s: no test is called %s", s.section, s.about, name)
			}
			if !strings.HasPrefix(strings.TrimPrefix(name, "gate."), mark) && name != "TestSection32And33MannWhitney" {
				t.Errorf("%s, %s: %s is named by another section", s.section, s.about, name)
			}
			delete(have, name)
		}
	}
	for name := range have {
		t.Errorf("%s stands in no section", name)
	}
}
