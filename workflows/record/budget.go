package record

// Budget is what the arms of a session may take together. 0 is no limit.
type Budget struct {
	Seconds float64 `json:"seconds,omitempty"`  // of arms that ran, settling included
	Joules  float64 `json:"energy_j,omitempty"` // sum of their metrics *.energy_j
	Arms    int     `json:"arms,omitempty"`     // all of them: warm arms, probes and redone ones count
}

// Spent is what the arms of a session took, every attempt of them.
type Spent struct {
	Seconds   float64 `json:"seconds"`
	Joules    float64 `json:"energy_j"`  // of the arms that have metrics *.energy_j
	Arms      int     `json:"arms"`      //
	Unmetered int     `json:"unmetered"` // measured arms that are ok and have none: Joules is too low
}
