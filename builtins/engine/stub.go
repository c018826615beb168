package engine

import (
	"context"
	"errors"
	"os"

	"flow/workflows/plan"
	"flow/workflows/record"
)

type supervisor struct{}
type literalHit struct{}

var errStub = errors.New("not built yet")

// Start launches the engine.
func Start(ctx context.Context, o Options, l Launch) (*Process, error) { return nil, errStub }

// WaitReady waits until the engine can be asked.
func (p *Process) WaitReady(ctx context.Context) error { return errStub }

// Wait waits for the end of a command engine.
func (p *Process) Wait(ctx context.Context) error { return errStub }

// Stop ends the engine and proves that nothing is left.
func (p *Process) Stop(ctx context.Context) error { return errStub }

// Log is stdout and stderr from byte 0.
func (p *Process) Log() string { return "" }

// Stdout is standard output alone.
func (p *Process) Stdout() (string, bool) { return "", false }

// Confirm reads the evidence of levers.
func (p *Process) Confirm(ctx context.Context, levers []plan.Lever, when string) []record.Evidence {
	return nil
}

// Tree is the live pids of the engine.
func (p *Process) Tree() []int { return nil }

// Supervise is the main of the hidden supervise verb.
func Supervise(args []string, in, out *os.File) int { return 70 }

// Version runs the engine's version command.
func Version(ctx context.Context, e plan.Engine, root string) (string, error) { return "", errStub }

// LookBinary finds what a command's first word runs.
func LookBinary(name, root, path string) (string, error) { return "", errStub }
