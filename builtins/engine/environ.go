package engine

// The environment of an engine: what the engine and its levers say, and a short list of variables without
// which programs do not start. Everything else of flow's own environment stays outside, so that a variable
// exported in somebody's shell cannot become part of a measurement unseen.

import (
	"maps"
	"slices"
	"strings"

	"flow/workflows/record"
)

// AllowedEnv are the variables passed from flow's environment to an engine; a trailing * matches. They are
// what finds programs and libraries, where a user's files are, how text is encoded, and which devices were
// given to flow itself (by a batch system, for one). Nothing that tunes an engine is among them.
func AllowedEnv() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LC_*", "XDG_RUNTIME_DIR",
		"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME", "CONDA_PREFIX",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH",
		"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
	}
}

func allowed(name string, lists ...[]string) bool {
	for _, list := range lists {
		for _, a := range list {
			if prefix, ok := strings.CutSuffix(a, "*"); ok && strings.HasPrefix(name, prefix) || a == name {
				return true
			}
		}
	}
	return false
}

// environment is what the engine gets. own is flow's environment as NAME=value; c's is filled in already.
func environment(own []string, allow []string, c record.Command) map[string]string {
	env := map[string]string{}
	for _, kv := range own {
		if name, v, ok := strings.Cut(kv, "="); ok && name != "" && allowed(name, AllowedEnv(), allow) {
			env[name] = v
		}
	}
	for _, name := range c.Unset {
		delete(env, name)
	}
	maps.Copy(env, c.Env)
	return env
}

// pairs is env as NAME=value, sorted, so that two launches of one side are the same bytes.
func pairs(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// parseEnviron reads /proc/PID/environ: "A=1\x00B=two\x00". The first of two equal names counts, as getenv
// finds it.
func parseEnviron(b []byte) map[string]string {
	env := map[string]string{}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		name, v, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			continue
		}
		if _, twice := env[name]; !twice {
			env[name] = v
		}
	}
	return env
}
