package main

// flow run --recorded: a workflow on the arms of a session that was recorded before.

import (
	"context"

	"flow/db"
	"flow/workflows/measure"
	"flow/workflows/record"
)

// useRecorded makes a new session one on the arms of another. It takes that one's seed unless it has its
// own, so that coins fall as they fell.
func useRecorded(ctx context.Context, d *db.DB, rs *record.Session, ref string) error {
	of, err := d.Session(ctx, ref)
	if err != nil {
		return err
	}
	rs.Measurer, rs.Simulate = record.MeasurerRecorded, of.ID
	if rs.Seed == 0 {
		rs.Seed = of.Seed
	}
	return nil
}

// recordedMeasurer is the measurer of such a session; of a resumed one it knows what is used.
func recordedMeasurer(ctx context.Context, d *db.DB, rs *record.Session) (*measure.Recorded, error) {
	of, err := d.Session(ctx, rs.Simulate)
	if err != nil {
		return nil, err
	}
	groups, err := d.Groups(ctx, of.ID)
	if err != nil {
		return nil, err
	}
	for i, g := range groups { // with their requests and logs, which gates read
		if groups[i], err = d.Group(ctx, g.ID); err != nil {
			return nil, err
		}
		for _, a := range groups[i].Arms {
			if a.Process == nil || a.Process.LogBytes == 0 {
				continue
			}
			if a.Process.Log, err = d.Log(ctx, a.ID); err != nil {
				return nil, err
			}
		}
	}
	m := measure.NewRecorded(of, groups, func(ctx context.Context, arm string) ([]record.Sample, error) { return d.Samples(ctx, arm, "") })
	used, err := d.Groups(ctx, rs.ID)
	if err != nil {
		return nil, err
	}
	m.Skip(used)
	return m, nil
}
