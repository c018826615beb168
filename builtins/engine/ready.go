package engine

// Readiness, and the end of command engines.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"flow/starlark/diag"
	"flow/workflows/plan"
)

// Between two looks a loading engine is left alone: from firstPause, growing to lastPause.
const (
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
)

// probe looks once. why says what is still missing; an error ends the waiting.
type probe func(ctx context.Context) (ready bool, why string, err error)

// WaitReady waits until the engine can be asked, at most the engine's own time. It fails with a
// *StartError: at once when the engine ends, or when another process answers on its port.
func (p *Process) WaitReady(ctx context.Context) error {
	look, closeProbe, err := p.readyProbe()
	if err != nil {
		return &StartError{Reason: "ready of engine " + p.engine.Name, Permanent: true, Err: err}
	}
	defer closeProbe()
	own, cancel := context.WithTimeout(ctx, p.timeouts.Ready)
	defer cancel()
	why := "no answer to the first look"
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		if p.ended() && !p.ranAlready() {
			return p.diedBeforeReady()
		}
		ready, w, err := look(own)
		if err != nil {
			return err
		}
		if ready {
			p.findScope()
			p.mu.Lock()
			p.info.ReadyNS = p.now()
			p.mu.Unlock()
			return nil
		}
		if w != "" && own.Err() == nil { // not the words of a look that the end of the time cut short
			why = w
		}
		timer := time.NewTimer(pause)
		select {
		case <-p.done:
		case <-own.Done():
			timer.Stop()
			if ctx.Err() != nil {
				return &StartError{Reason: "engine " + p.engine.Name + " was not ready yet", LogTail: p.logTail(), Err: ctx.Err()}
			}
			return &StartError{LogTail: p.logTail(),
				Reason: fmt.Sprintf("engine %s was not ready within %s (%s)", p.engine.Name, words(p.timeouts.Ready), why)}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *Process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ranAlready: a command engine is ready when it is launched, and a quick one can have done all its work
// before the first look.
func (p *Process) ranAlready() bool {
	if k := p.engine.Ready.Kind; k != "" && k != plan.ReadyExit {
		return false
	}
	e := p.exitError()
	return e.Code != nil && *e.Code == 0
}

// diedBeforeReady: an exit of its own is what the next launch would do as well; a signal need not be.
func (p *Process) diedBeforeReady() *StartError {
	e := p.exitError()
	se := &StartError{Reason: fmt.Sprintf("engine %s ended before it was ready", p.engine.Name), LogTail: e.LogTail, Err: e}
	se.Permanent = e.Code != nil && !e.OOMKilled
	if port := p.info.Port; port != 0 {
		if free, ours, who := portOwner(port, p.Tree()); !free && !ours && who != "" {
			p.mu.Lock()
			p.foreign = who
			p.mu.Unlock()
			se.Permanent = false
			se.Reason += fmt.Sprintf(", and its port %d is taken by %s", port, who)
		}
	}
	if left := p.Tree(); len(left) > 0 && e.Code != nil && *e.Code == 0 {
		se.Reason += fmt.Sprintf(" and left %d processes behind: it must stay in the foreground", len(left))
	}
	return se
}

func (p *Process) readyProbe() (probe, func(), error) {
	r := p.engine.Ready
	none := func() {}
	switch r.Kind {
	case "", plan.ReadyExit:
		return func(context.Context) (bool, string, error) { return true, "", nil }, none, nil
	case plan.ReadyHTTP:
		return p.probeHTTP(r), none, nil
	case plan.ReadyPort:
		return p.probePort(), none, nil
	case plan.ReadyLog:
		if p.attached {
			return nil, none, &diag.Error{Pos: p.engine.Pos, Kind: diag.Workflow, Op: "ready.log", Msg: "an attached engine has no log of ours", Fix: `use ready.http("/health")`}
		}
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, none, &diag.Error{Pos: p.engine.Pos, Kind: diag.Workflow, Op: "ready.log", Msg: fmt.Sprintf("got pattern %q", r.Pattern), Err: err}
		}
		look, end := p.probeLog(re)
		return look, end, nil
	}
	return nil, none, &diag.Error{Pos: p.engine.Pos, Kind: diag.Workflow, Op: "ready", Msg: fmt.Sprintf("got kind %q, want http, log, port or exit", r.Kind)}
}

func (p *Process) probeHTTP(r plan.Ready) probe {
	want := r.Status
	if want == 0 {
		want = http.StatusOK
	}
	client := &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	at := p.BaseURL() + r.Path
	return func(ctx context.Context) (bool, string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return false, "", &StartError{Reason: "ready of engine " + p.engine.Name, Permanent: true, Err: err}
		}
		resp, err := client.Do(req)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) && op.Op == "dial" {
				return false, fmt.Sprintf("GET %s: nothing listens on port %s yet", r.Path, req.URL.Port()), nil
			}
			return false, fmt.Sprintf("GET %s: %v", r.Path, errors.Unwrap(err)), p.foreignPort()
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		_ = resp.Body.Close()
		if err := p.foreignPort(); err != nil {
			return false, "", err
		}
		if resp.StatusCode != want {
			return false, fmt.Sprintf("GET %s answered %d, want %d", r.Path, resp.StatusCode, want), nil
		}
		return true, "", nil
	}
}

func (p *Process) probePort() probe {
	return func(ctx context.Context) (bool, string, error) {
		u, err := url.Parse(p.BaseURL())
		if err != nil {
			return false, "", &StartError{Reason: "ready of engine " + p.engine.Name, Permanent: true, Err: err}
		}
		host := u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), map[bool]string{true: "443", false: "80"}[u.Scheme == "https"])
		}
		d := net.Dialer{Timeout: 5 * time.Second}
		c, err := d.DialContext(ctx, "tcp", host)
		if err != nil {
			return false, "nothing listens on " + host + " yet", nil
		}
		_ = c.Close()
		return true, "", p.foreignPort()
	}
}

func (p *Process) probeLog(re *regexp.Regexp) (probe, func()) {
	files := []*follower{{path: filepath.Join(p.out, LogFile)}}
	if p.stdout {
		files = append(files, &follower{path: filepath.Join(p.out, StdoutFile)})
	}
	end := func() {
		for _, f := range files {
			f.close()
		}
	}
	why := fmt.Sprintf("no log line matches %q", re)
	return func(context.Context) (bool, string, error) {
		for _, f := range files {
			for _, line := range f.lines() {
				if re.MatchString(line) {
					return true, "", p.foreignPort()
				}
			}
		}
		return false, why, nil
	}, end
}

// foreignPort is the error when another process listens on our port. Who answers a probe is not asked:
// a server of yesterday answers as politely as the one under test.
func (p *Process) foreignPort() error {
	port := p.info.Port
	if p.attached || port == 0 {
		return nil
	}
	free, ours, who := portOwner(port, p.Tree())
	if free || ours || who == "" {
		return nil
	}
	// The owner may have been born, or the tree misread, between two looks at /proc: look again.
	if free, ours, who = portOwner(port, p.Tree()); free || ours {
		return nil
	}
	p.mu.Lock()
	p.foreign = who
	p.mu.Unlock()
	return &StartError{Reason: fmt.Sprintf("port %d is taken by %s, not by engine %s", port, who, p.engine.Name), LogTail: p.logTail(),
		Err: &diag.Error{Pos: p.engine.Pos, Kind: diag.Machine, Op: "port", Msg: "the engine does not own the port it was given", Fix: "see that the engine passes {port} on and does not detach from flow"}}
}

// Wait waits for the end of a command engine, at most the engine's request time. A run that does not end
// with exit code 0 is an *ExitError; whoever waits no longer calls Stop.
func (p *Process) Wait(ctx context.Context) error {
	if p.attached {
		return errors.New("an attached engine has no end to wait for")
	}
	timer := time.NewTimer(p.timeouts.Request)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("engine %s still runs after %s: %w", p.engine.Name, words(p.timeouts.Request), context.DeadlineExceeded)
	}
	e := p.exitError()
	if e.Code != nil && *e.Code == 0 && !e.OOMKilled {
		return nil
	}
	return e
}

// exitError is how the engine ended.
func (p *Process) exitError() *ExitError {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &ExitError{Signal: p.info.Signal, OOMKilled: p.info.OOMKilled}
	if p.info.ExitCode != nil {
		code := *p.info.ExitCode
		e.Code = &code
	}
	e.LogTail = p.logTail()
	return e
}
