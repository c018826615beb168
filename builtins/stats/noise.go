package stats

// Noise is what is known of the noise of one arm from arms that are not part of the comparison.
type Noise struct {
	SD   float64 // of one arm, on the scale analysed (logarithms): .0027 is .27 %
	DF   float64 // degrees of freedom behind SD; at most 8 of them are borrowed
	From string  // in words, with what was left out
}
