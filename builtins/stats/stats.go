// Package stats holds designs, estimators, verdicts and stopping rules for two to ten blocks of arms.
package stats
