package client

import (
	"context"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// In flight, by hand: [0,10], [0,6], [6,10] with two places is two all the time; a single long tail is not.
func TestFlight(t *testing.T) {
	l := &record.Load{Asked: 2}
	flight(l, []span{{0, 10}, {0, 6}, {6, 10}})
	if l.WindowNS != 10 || l.SteadyNS != 10 || l.InFlightMean != 2 || l.InFlightMax != 2 {
		t.Errorf("full: got %+v", *l)
	}
	l = &record.Load{Asked: 2}
	flight(l, []span{{0, 20}, {2, 6}})
	if l.WindowNS != 20 || l.SteadyNS != 4 || l.InFlightMean != 1.2 || l.InFlightMax != 2 {
		t.Errorf("tail: got %+v", *l)
	}
	l = &record.Load{}
	flight(l, nil)
	if l.WindowNS != 0 {
		t.Errorf("nothing: got %+v", *l)
	}
}

// An open loop sends when it is due though the server is busy; what waited shows against the schedule.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	s := sim(t, "--decode-tok-s", "1000", "--prefill-tok-s", "1000000", "--slots", "1", "--stall-at-token", "5", "--stall-ms", "60")
	c := client(t, s.URL, plan.APIChat)
	base := c.o.Now() + int64(20*time.Millisecond)
	var ps []Prompt
	for i := range 6 {
		at := base + int64(i)*int64(10*time.Millisecond)
		ps = append(ps, Prompt{Index: i, Text: "x", MaxTokens: 10, ScheduledNS: &at})
	}
	rows, l := c.Load(context.Background(), ps, LoadOptions{Arrival: "constant 100/s"})
	if l.Asked != 0 || l.InFlightMax < 2 || l.Arrival == "" || l.SteadyNS != l.WindowNS {
		t.Errorf("got %+v", *l)
	}
	for i, r := range rows {
		if r.Status != "ok" || r.Index != i || r.ScheduledNS == nil || *r.StartNS < *r.ScheduledNS {
			t.Fatalf("request %d: %s %q, started %v, due %v", i, r.Status, r.Error, r.StartNS, r.ScheduledNS)
		}
	}
	// One slot and 70 ms each: the last waits for five others, and its response time has that wait.
	last := rows[5]
	if wait := time.Duration(*last.LastContentNS - *last.ScheduledNS); wait < 300*time.Millisecond {
		t.Errorf("the last answer came %s after it was due, want the queue in it", wait)
	}
}

func TestClosedLoopFacts(t *testing.T) {
	c := client(t, sim(t, quick...).URL, plan.APIChat)
	ps := make([]Prompt, 8)
	for i := range ps {
		ps[i] = Prompt{Index: i, Text: "x", MaxTokens: 40}
	}
	asked := 0.0
	rows, l := c.Load(context.Background(), ps, LoadOptions{Concurrency: 4, Think: time.Millisecond, Running: func(context.Context) (float64, bool) { asked++; return asked, true }})
	for _, r := range rows {
		if r.Status != "ok" {
			t.Fatalf("%s %q", r.Status, r.Error)
		}
	}
	if l.Asked != 4 || l.InFlightMax != 4 || l.InFlightMean <= 1 || l.InFlightMean > 4 || l.SteadyNS <= 0 || l.SteadyNS > l.WindowNS {
		t.Errorf("got %+v", *l)
	}
	if l.CPUSeconds == nil || l.LagMaxUS == nil || *l.LagP50US > *l.LagMaxUS {
		t.Errorf("got %+v", *l)
	}
}

func TestProbe(t *testing.T) {
	c := client(t, sim(t, quick...).URL, plan.APIChat)
	for _, path := range []string{"", "/health"} {
		if got := c.Probe(context.Background(), path, 5); len(got) != 5 || got[0] < 0 {
			t.Errorf("%q: got %v", path, got)
		}
	}
	gone := New(Options{API: plan.API{Kind: plan.APIChat}, BaseURL: "http://127.0.0.1:1", Now: clock()})
	defer gone.Close()
	if got := gone.Probe(context.Background(), "", 3); len(got) != 0 {
		t.Errorf("nothing listens there, got %v", got)
	}
}
