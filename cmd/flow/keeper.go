package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"flow/workflows/record"
	"flow/workflows/run"
)

// keeper is everything that a session is recorded with.
type keeper interface {
	run.Recorder
	run.Journal
	BeginSession(ctx context.Context, s *record.Session) error
	EndSession(ctx context.Context, s *record.Session) error
}

// killAtVar names the write at which flow kills itself with SIGKILL: "7" after the seventh, "7-" before
// it. It exists so that a test can show that nothing is lost wherever flow dies.
const killAtVar = "FLOW_TEST_KILL_AT"

// withKillPoint wraps a keeper when a test asks for it.
func withKillPoint(k keeper) keeper {
	at := os.Getenv(killAtVar)
	if at == "" {
		return k
	}
	num, before := strings.CutSuffix(at, "-")
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n < 1 {
		return k
	}
	return &killing{keeper: k, at: n, before: before}
}

// killing counts durable writes.
type killing struct {
	keeper
	n      atomic.Int64
	at     int64
	before bool
}

func (k *killing) around(write func() error) error {
	hit := k.n.Add(1) == k.at
	if hit && k.before {
		die()
	}
	err := write()
	if hit {
		die()
	}
	return err
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (k *killing) BeginSession(ctx context.Context, s *record.Session) error {
	return k.around(func() error { return k.keeper.BeginSession(ctx, s) })
}

func (k *killing) EndSession(ctx context.Context, s *record.Session) error {
	return k.around(func() error { return k.keeper.EndSession(ctx, s) })
}

func (k *killing) BeginGroup(ctx context.Context, g *record.Group) error {
	return k.around(func() error { return k.keeper.BeginGroup(ctx, g) })
}

func (k *killing) EndArm(ctx context.Context, a *record.Arm) error {
	return k.around(func() error { return k.keeper.EndArm(ctx, a) })
}

func (k *killing) JudgeArm(ctx context.Context, a *record.Arm) error {
	return k.around(func() error { return k.keeper.JudgeArm(ctx, a) })
}

func (k *killing) EndGroup(ctx context.Context, g *record.Group) error {
	return k.around(func() error { return k.keeper.EndGroup(ctx, g) })
}

func (k *killing) BeginEffect(ctx context.Context, session string, e record.Effect) error {
	return k.around(func() error { return k.keeper.BeginEffect(ctx, session, e) })
}

func (k *killing) EndEffect(ctx context.Context, session string, index int, result []byte) error {
	return k.around(func() error { return k.keeper.EndEffect(ctx, session, index, result) })
}
