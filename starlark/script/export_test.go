package script

// HabitNames are the rows of the table of fixes, for the test that each has an example.
func HabitNames() (names []string) {
	for _, h := range habits() {
		names = append(names, h.name)
	}
	return names
}

// ResolveLabel is resolveLabel, for its fuzz target.
func ResolveLabel(from, label string) (string, error) { return resolveLabel(from, label) }
