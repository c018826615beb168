package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"flow/builtins/command"
	"flow/starlark/diag"
	"flow/workflows/plan"
	"flow/workflows/record"
)

// LookBinary finds what a command's first word runs, as a launch does: a name with a slash is a path,
// relative to the workflow's root; a bare name is looked up in path, a PATH, or in flow's own when it is
// empty. The result is absolute; links are not followed, because programs look at the name they were
// started by.
func LookBinary(name, root, path string) (string, error) {
	if name == "" {
		return "", &diag.Error{Kind: diag.Workflow, Op: "binary", Msg: "got an empty name", Fix: `write command = ["llama-server", …]`}
	}
	if strings.Contains(name, "/") {
		full := absolute(root, name)
		if err := executable(full); err != nil {
			return "", &diag.Error{Kind: diag.Workflow, Op: "binary " + name, Msg: full, Err: err, Fix: lookFix(err)}
		}
		return full, nil
	}
	if path == "" {
		path = os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a relative PATH entry would depend on where flow was started
		}
		full := filepath.Join(dir, name)
		if executable(full) == nil {
			return full, nil
		}
	}
	return "", &diag.Error{Kind: diag.Workflow, Op: "binary " + name, Msg: "no such program in PATH (" + clip(path, 300) + ")",
		Fix: "install it, or write its path: with a slash it is relative to the workflow's folder"}
}

func executable(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // the path stands in the message already
		}
		return err
	}
	if st.IsDir() {
		return syscall.EISDIR
	}
	if st.Mode()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

func lookFix(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "build it, or write where it is: paths with a slash are relative to the workflow's folder"
	case errors.Is(err, os.ErrPermission):
		return "make it executable: chmod +x"
	}
	return ""
}

// versionLimit bounds a version command, and versionBytes what is kept of its output.
const (
	versionLimit = 20 * time.Second
	versionBytes = 16 << 10
)

// Version runs the engine's version command, with the engine's environment, and gives what it prints on
// both streams. "" without error: the engine names no such command. What was printed before a failure is
// given with the error.
func Version(ctx context.Context, e plan.Engine, root string) (string, error) {
	if len(e.Version) == 0 {
		return "", nil
	}
	fail := func(err error) error {
		return &diag.Error{Pos: e.Pos, Kind: diag.Machine, Op: "version of engine " + e.Name, Err: err}
	}
	self, _ := os.Executable()
	c, err := fillCommand(Launch{Engine: e, Root: root, Command: record.Command{Argv: e.Version, Unset: e.Unset, Env: nil}},
		map[string]string{"flow": self})
	if err != nil {
		return "", err
	}
	c.Env = e.Env
	env := environment(os.Environ(), nil, c)
	bin, err := LookBinary(c.Argv[0], root, env["PATH"])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	out := &limited{max: versionBytes}
	cmd := exec.Command(bin, c.Argv[1:]...)
	cmd.Env, cmd.Dir = pairs(env), root
	cmd.Stdout, cmd.Stderr = out, out
	_, err = command.Run(ctx, cmd) // what it left is ended; the text is there
	text := strings.TrimSpace(strings.ToValidUTF8(out.kept.String(), "?"))
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return text, fail(fmt.Errorf("%s did not end within %s", strings.Join(e.Version, " "), words(versionLimit)))
	case err != nil && ctx.Err() != nil:
		return text, fail(ctx.Err())
	case err != nil:
		return text, fail(fmt.Errorf("%s: %w", strings.Join(e.Version, " "), err))
	}
	return text, nil
}

// limited keeps the first max bytes. It embeds no buffer, whose ReadFrom would know no limit.
type limited struct {
	kept bytes.Buffer
	max  int
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.max - l.kept.Len(); room > 0 {
		l.kept.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
