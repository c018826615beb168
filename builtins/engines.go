package builtins

// Engines: the program under test, how it is ready, and how it is asked.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"go.starlark.net/starlark"
	"gopkg.in/yaml.v3"

	"flow/starlark/diag"
	"flow/starlark/value"
	"flow/workflows/plan"
)

var engineKind = &kind[plan.Engine]{
	name:  "engine",
	key:   func(e plan.Engine) string { return plan.Sum(e) },
	label: func(e plan.Engine) string { return fmt.Sprintf("%q", e.Name) },
	attrs: map[string]func(plan.Engine) starlark.Value{
		"name":      func(e plan.Engine) starlark.Value { return text(e.Name) },
		"command":   func(e plan.Engine) starlark.Value { return texts(e.Command) },
		"url":       func(e plan.Engine) starlark.Value { return textOrNone(e.URL) },
		"env":       func(e plan.Engine) starlark.Value { return textDict(e.Env) },
		"unset":     func(e plan.Engine) starlark.Value { return texts(e.Unset) },
		"cwd":       func(e plan.Engine) starlark.Value { return textOrNone(e.Dir) },
		"config":    func(e plan.Engine) starlark.Value { return textDict(e.Config) },
		"files":     func(e plan.Engine) starlark.Value { return texts(e.Files) },
		"version":   func(e plan.Engine) starlark.Value { return texts(e.Version) },
		"origin":    func(e plan.Engine) starlark.Value { return textDict(e.Origin) },
		"evidence":  func(e plan.Engine) starlark.Value { return texts(e.Evidence) },
		"launch":    func(e plan.Engine) starlark.Value { return systemdKind.orNone(e.Launch) },
		"resources": func(e plan.Engine) starlark.Value { return texts(e.Resources) },
		"metrics":   func(e plan.Engine) starlark.Value { return metricKind.list(e.Metrics) },
		"api":       func(e plan.Engine) starlark.Value { return apiKind.orNone(e.API) },
		"ready":     func(e plan.Engine) starlark.Value { return readyKind.of(e.Ready) },
	},
}

var readyKind = &kind[plan.Ready]{
	name:  "ready",
	key:   func(r plan.Ready) string { return plan.Sum(r) },
	label: func(r plan.Ready) string { return strings.TrimSpace(r.Kind + " " + r.Path + r.Pattern) },
	attrs: map[string]func(plan.Ready) starlark.Value{
		"kind": func(r plan.Ready) starlark.Value { return text(r.Kind) },
	},
}

var apiKind = &kind[plan.API]{
	name:  "api",
	key:   func(a plan.API) string { return plan.Sum(a) },
	label: func(a plan.API) string { return a.Kind },
	attrs: map[string]func(plan.API) starlark.Value{
		"kind":  func(a plan.API) starlark.Value { return text(a.Kind) },
		"path":  func(a plan.API) starlark.Value { return textOrNone(a.Path) },
		"model": func(a plan.API) starlark.Value { return textOrNone(a.Model) },
	},
}

func engineFamily() Family {
	return Family{"Engines", "The program under test.", []Builtin{
		{
			Name: "engine",
			Doc: "The program under test. With `api` it is a server that flow launches, waits for and asks; without, a command that runs to its end and whose metrics are " +
				"extracted; with `url` a server that runs already. In the command `{port}`, `{out}` and `{flow}` stand for the arm's port, its folder and flow's own binary, and " +
				"`{prompt_file}`, `{max_tokens}`, `{ctx}`, `{seed}` and `{repeat}` for what the workload says.",
			Example: `llama = engine("llama",
    command = ["llama-server", "-m", "tiny.gguf", "--port", "{port}"],
    ready = ready.http("/health"),
    api = api.openai_chat(),
)`,
			Func: engineCall,
		},
		systemdBuiltin(),
		readyBuiltin("ready.http", "The server is ready when a GET answers with a status.", `ready.http("/health")`, func(c *Call) (plan.Ready, error) {
			r := plan.Ready{Kind: plan.ReadyHTTP, Path: "/health", Status: 200}
			err := c.Unpack(1,
				value.Param{Name: "path", Default: `"/health"`, Into: value.String(&r.Path), Doc: "path of the URL"},
				value.Param{Name: "status", Default: "200", Into: value.Int(&r.Status), Doc: "the status that means ready"},
			)
			if err == nil && (r.Path == "" || r.Path[0] != '/') {
				err = c.Errorf(`ready.http("/health")`, "got path %q, want one that begins with /", r.Path)
			}
			return r, err
		}),
		readyBuiltin("ready.log", "The server is ready when a line of its log matches.", `ready.log(r"listening on http://")`, func(c *Call) (plan.Ready, error) {
			r := plan.Ready{Kind: plan.ReadyLog}
			err := c.Unpack(1, value.Param{Name: "pattern", Required: true, Into: pattern(&r.Pattern), Doc: "RE2 pattern"})
			return r, err
		}),
		readyBuiltin("ready.port", "The server is ready when its port accepts a connection and belongs to its own processes.", `ready.port()`, func(c *Call) (plan.Ready, error) {
			return plan.Ready{Kind: plan.ReadyPort}, c.Unpack(0)
		}),
		apiBuiltin(plan.APIChat, "OpenAI chat: POST /v1/chat/completions, streamed."),
		apiBuiltin(plan.APICompletions, "OpenAI completions: POST /v1/completions, streamed. The prompt is sent as it is, without a chat template."),
		apiBuiltin(plan.APILlama, "The own completion endpoint of llama.cpp: POST /completion, streamed."),
		apiBuiltin(plan.APIOllama, "Ollama's own endpoint: POST /api/generate, one JSON object a line; with path = \"/api/chat\" its chat."),
	}}
}

func engineCall(c *Call) (starlark.Value, error) {
	var e plan.Engine
	var readyGiven *plan.Ready
	var launch *plan.Systemd
	var timeouts map[string]time.Duration
	var uses []resource
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&e.Name), Doc: "how reports name it"},
		value.Param{Name: "command", Default: "[]", Into: command(&e.Command), Example: `["llama-server", "--port", "{port}"]`, Doc: "the program and its arguments, as a list: it never goes through a shell. Numbers are written as they print"},
		value.Param{Name: "url", Default: `""`, Into: value.String(&e.URL), Doc: "a server that runs already, such as \"http://127.0.0.1:8080\"; only levers that change the request work on it"},
		value.Param{Name: "env", Default: "{}", Into: environment(&e.Env), Example: `{"OMP_NUM_THREADS": 1}`, Doc: "environment variables; of flow's own only an allow-list is passed on"},
		value.Param{Name: "unset", Default: "[]", Into: value.Strings(&e.Unset), Doc: "variables that must not be there"},
		value.Param{Name: "cwd", Default: `""`, Into: value.String(&e.Dir), Doc: "folder to run in; by default the arm's own"},
		value.Param{Name: "config", Default: "{}", Into: configFiles(&e.Config), Example: `{"engine.json": {"threads": 4}}`, Doc: "files written into {out} before the launch: text, or a dict written as JSON, TOML or YAML by the file's extension"},
		value.Param{Name: "files", Default: "[]", Into: value.Strings(&e.Files), Doc: "model files to fingerprint"},
		value.Param{Name: "flags", Default: "{}", Into: aliases(&e.Flags), Example: `{"-ub": ["--ubatch-size"]}`, Doc: "flags that take a value, with their other names, so that a lever replaces whichever is there"},
		value.Param{Name: "bare", Default: "[]", Into: value.Strings(&e.Bare), Example: `["-v", "-6"]`, Doc: "flags that take no value, so that a lever may remove one in front of a positional argument"},
		value.Param{Name: "version", Default: "[]", Into: command(&e.Version), Example: `["llama-server", "--version"]`, Doc: "command whose output is the version"},
		value.Param{Name: "version_log", Default: `""`, Into: pattern(&e.VersionLog), Example: `r"engine ([0-9.]+)"`, Doc: "RE2 pattern whose first group is the version, in its log: for an engine that no command asks for it"},
		value.Param{Name: "origin", Default: "{}", Into: value.Dict(&e.Origin), Example: `{"repository": "…", "commit": "…"}`, Doc: "where the binary comes from: repository, commit, tag, patch, dirty, toolchain"},
		value.Param{Name: "ready", Default: "None", Into: pointTo(readyKind, &readyGiven), Doc: "how one knows that it can be asked; by default ready.http(\"/health\") for a server that flow launches"},
		value.Param{Name: "api", Default: "None", Into: pointTo(apiKind, &e.API), Doc: "how it is asked; None makes it a command engine"},
		value.Param{Name: "metrics", Default: "[]", Into: listOf(metricKind, &e.Metrics, false), Doc: "what it reports by itself: metric(…) values"},
		value.Param{Name: "evidence", Default: "[]", Into: command(&e.Evidence), Example: `["-lv", "4"]`, Doc: "arguments added on every side, so that the engine prints what levers confirm by"},
		value.Param{Name: "timeouts", Default: `{"ready": "120s", "request": "10m", "stop": "10s"}`, Into: durations(&timeouts, "ready", "request", "stop"), Example: `{"ready": "60s"}`, Doc: "bounds: launch to ready; one request, or a command's whole run; stop signal to kill"},
		value.Param{Name: "stop_signal", Default: `"SIGTERM"`, Into: value.OneOf(&e.StopSignal, "SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"), Doc: "the signal that asks it to end"},
		value.Param{Name: "launch", Default: "None", Into: pointTo(systemdKind, &launch), Doc: "systemd(…) runs it in a transient unit; by default flow launches it itself"},
		value.Param{Name: "resources", Default: "[]", Into: listOf(resourceKind, &uses, true), Example: `[gpus(1), cpus("0-7")]`, Doc: "what it uses of the machine; by default all of it, and nothing else may measure meanwhile"},
		value.Param{Name: "collectors", Default: "[]", Into: listOf(collectorKind, &e.Collectors, true), Doc: "collector(…) values that watch it, in every group that it is part of and on every side of it"},
	)
	if err != nil {
		return nil, err
	}
	e.Pos, e.Launch = c.Pos(), launch
	for _, r := range uses {
		e.Resources = append(e.Resources, string(r))
		if strings.HasPrefix(string(r), "gpu") {
			for _, k := range []string{"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} {
				if _, both := e.Env[k]; both {
					return nil, c.Errorf("keep one: resources sets what is visible", "engine %q has GPUs among its resources and sets %s", e.Name, k)
				}
			}
		}
	}
	e.Timeouts = plan.Timeouts{Ready: timeouts["ready"], Request: timeouts["request"], Stop: timeouts["stop"]}
	switch {
	case len(e.Command) == 0 && e.URL == "":
		return nil, c.Errorf(fmt.Sprintf("engine(%q, command = [\"program\", \"--port\", \"{port}\"], …) or url = \"http://…\"", e.Name), "engine %q has neither command nor url", e.Name)
	case len(e.Command) > 0 && e.URL != "":
		return nil, c.Errorf("keep one: command launches an engine, url attaches to one", "engine %q has both command and url", e.Name)
	case e.URL != "" && e.API == nil:
		return nil, c.Errorf("api = api.openai_chat()", "engine %q is attached by its url and has no api", e.Name)
	case e.URL != "" && !strings.HasPrefix(e.URL, "http://") && !strings.HasPrefix(e.URL, "https://"):
		return nil, c.Errorf(`url = "http://127.0.0.1:8080"`, "engine %q: got url %q, want http:// or https://", e.Name, e.URL)
	case e.URL != "" && (len(e.Env)+len(e.Unset)+len(e.Config)+len(e.Evidence) > 0 || e.Dir != ""):
		return nil, c.Errorf("take env, unset, cwd, config and evidence away, or launch it with command =", "engine %q is attached by its url: flow cannot change how it was launched", e.Name)
	case e.URL != "" && launch != nil:
		return nil, c.Errorf("take launch away, or launch it with command =", "engine %q is attached by its url: flow does not launch it", e.Name)
	case len(e.Command) > 0 && e.Command[0] == "":
		return nil, c.Errorf("begin the command with a program", "engine %q: the command's first word is empty", e.Name)
	case e.API != nil && e.URL == "" && !mentionsPort(e):
		return nil, c.Errorf(`put "{port}" where the command says its port, such as "--port", "{port}"`, "engine %q is a server, and neither command, env nor config says {port}", e.Name)
	}
	switch {
	case readyGiven != nil && e.API == nil:
		return nil, c.Errorf("add api = api.openai_chat(), or take ready away: a command engine runs to its end", "engine %q has ready and no api", e.Name)
	case readyGiven != nil:
		e.Ready = *readyGiven
	case e.API != nil && e.URL == "":
		e.Ready = plan.Ready{Kind: plan.ReadyHTTP, Path: "/health", Status: 200}
	}
	seen := map[string]bool{}
	for _, m := range e.Metrics {
		if seen[m.Name] {
			return nil, c.Errorf("give each metric its own name", "metric %q stands twice", m.Name)
		}
		seen[m.Name] = true
	}
	return engineKind.of(e), nil
}

func mentionsPort(e plan.Engine) bool {
	has := func(s string) bool { return strings.Contains(s, "{port}") }
	return slices.ContainsFunc(e.Command, has) || slices.ContainsFunc(slices.Collect(maps.Values(e.Env)), has) || slices.ContainsFunc(slices.Collect(maps.Values(e.Config)), has)
}

func readyBuiltin(name, doc, example string, f func(*Call) (plan.Ready, error)) Builtin {
	return Builtin{Name: name, Doc: doc, Example: example, Func: func(c *Call) (starlark.Value, error) {
		r, err := f(c)
		if err != nil {
			return nil, err
		}
		return readyKind.of(r), nil
	}}
}

func apiBuiltin(kind, doc string) Builtin {
	name := "api." + kind
	return Builtin{Name: name, Doc: doc, Example: name + "()", Func: func(c *Call) (starlark.Value, error) {
		a := plan.API{Kind: kind}
		err := c.Unpack(0,
			value.Param{Name: "path", Default: `""`, Into: value.String(&a.Path), Doc: "path of the endpoint; empty is the protocol's own"},
			value.Param{Name: "model", Default: `""`, Into: value.String(&a.Model), Doc: "the model named in requests"},
			value.Param{Name: "headers", Default: "{}", Into: value.Dict(&a.Headers), Example: `{"Authorization": "Bearer …"}`, Doc: "headers of every request"},
			value.Param{Name: "body", Default: "{}", Into: jsonObject(&a.Body), Example: `{"cache_prompt": False}`, Doc: "members of every request body"},
			value.Param{Name: "tokenize", Default: `""`, Into: value.String(&a.Tokenize), Doc: "path of a tokenize endpoint, for a recount; empty is none"},
			value.Param{Name: "metrics", Default: `""`, Into: value.String(&a.Metrics), Doc: "path of a metrics endpoint, Prometheus text or JSON; empty is none"},
			value.Param{Name: "counts", Default: "[]", Into: listOf(countKind, &a.Counts, false), Doc: "token counts beside the answers: count.…(…) values"},
		)
		if err != nil {
			return nil, err
		}
		for what, p := range map[string]string{"path": a.Path, "tokenize": a.Tokenize, "metrics": a.Metrics} {
			if p != "" && p[0] != '/' {
				return nil, c.Errorf(fmt.Sprintf("write %s = %q", what, "/"+p), "got %s %q, want one that begins with /", what, p)
			}
		}
		return apiKind.of(a), nil
	}}
}

// command unpacks a command line. A string is refused: it would ask for a shell.
func command(to *[]string) value.Unpacker {
	const want = "list of strings and numbers"
	return value.Func(want, func(v starlark.Value) error {
		if s, ok := starlark.AsString(v); ok {
			words := strings.Fields(s)
			return say("["+quoteList(words)+"]", "got string, want %s: a command never goes through a shell", want)
		}
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, want)
		}
		out := make([]string, 0, len(items))
		for i, x := range items {
			s, err := word(x)
			if err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			out = append(out, s)
		}
		*to = out
		return nil
	})
}

// aliases unpacks other names of flags.
func aliases(to *map[string][]string) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := map[string][]string{}
		for _, kv := range items {
			k, ok := starlark.AsString(kv[0])
			if !ok {
				return fmt.Errorf("got key of type %s, want string", kv[0].Type())
			}
			if s, ok := starlark.AsString(kv[1]); ok {
				out[k] = []string{s}
				continue
			}
			each, err := elements(kv[1])
			if err != nil {
				return fmt.Errorf("%s: got %s, want list of flags", k, kv[1].Type())
			}
			for _, x := range each {
				s, ok := starlark.AsString(x)
				if !ok {
					return fmt.Errorf("%s: got %s, want flag", k, x.Type())
				}
				out[k] = append(out[k], s)
			}
		}
		*to = out
		return nil
	})
}

// durations unpacks a dict of durations with known keys.
func durations(to *map[string]time.Duration, keys ...string) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := map[string]time.Duration{}
		for _, kv := range items {
			k, _ := starlark.AsString(kv[0])
			if !slices.Contains(keys, k) {
				return fmt.Errorf("got key %s, want one of %s", kv[0], quoteList(keys))
			}
			var d time.Duration
			if err := value.Duration(&d).Unpack(kv[1]); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			if d <= 0 {
				return fmt.Errorf("%s: got %s, want more than 0", k, d)
			}
			out[k] = d
		}
		*to = out
		return nil
	})
}

// jsonObject unpacks a dict into canonical JSON; an empty one is "".
func jsonObject(to *string) value.Unpacker {
	return value.Func("dict", func(v starlark.Value) error {
		items, err := pairs(v, "dict")
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return nil
		}
		s, err := value.ToJSON(v)
		if err != nil {
			return err
		}
		*to = s
		return nil
	})
}

// configFiles unpacks config files: text as it is, a dict or list written by the extension.
func configFiles(to *map[string]string) value.Unpacker {
	const want = "dict"
	return value.Func(want, func(v starlark.Value) error {
		items, err := pairs(v, want)
		if err != nil {
			return err
		}
		out := map[string]string{}
		for _, kv := range items {
			name, ok := starlark.AsString(kv[0])
			if !ok || name == "" {
				return fmt.Errorf("got key %s, want text", kv[0])
			}
			if path.IsAbs(name) || name != path.Clean(name) || strings.HasPrefix(name, "../") || name == ".." {
				return fmt.Errorf("got file name %q, want one below the arm's folder, such as \"engine.json\"", name)
			}
			if s, ok := starlark.AsString(kv[1]); ok {
				out[name] = s
				continue
			}
			content, err := writeConfig(name, kv[1])
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			out[name] = content
		}
		*to = out
		return nil
	})
}

// writeConfig writes a value by the extension of its file. Keys are sorted, so that equal values give
// equal files.
func writeConfig(name string, v starlark.Value) (string, error) {
	x, err := value.ToGo(v)
	if err != nil {
		return "", err
	}
	switch ext := path.Ext(name); ext {
	case ".json":
		b, err := json.MarshalIndent(x, "", "  ")
		return string(b) + "\n", err
	case ".yaml", ".yml":
		var b bytes.Buffer
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(2)
		if err := enc.Encode(x); err != nil {
			return "", err
		}
		return b.String(), nil
	case ".toml":
		if _, ok := x.(map[string]any); !ok {
			return "", fmt.Errorf("got %s, want dict for a TOML file", v.Type())
		}
		var b bytes.Buffer
		enc := toml.NewEncoder(&b)
		enc.Indent = ""
		if err := enc.Encode(x); err != nil {
			return "", fmt.Errorf("TOML cannot hold it: %w", err)
		}
		return b.String(), nil
	default:
		return "", fmt.Errorf("got %s for extension %q, want text, or .json, .toml or .yaml", v.Type(), ext)
	}
}

// errorAt is a mistake at a place already known.
func errorAt(pos diag.Pos, op, msg, fix string) error {
	return &diag.Error{Pos: pos, Kind: diag.Workflow, Op: opOf(op, msg), Msg: msg, Fix: fix}
}

// say is a mistake inside an argument that has a better fix than the form of the call.
func say(fix, format string, args ...any) error {
	return &diag.Error{Kind: diag.Workflow, Msg: fmt.Sprintf(format, args...), Fix: fix}
}
