package builtins

// Workloads: what an arm asks of the engine. Prompt files are named here and read when arms run.

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"go.starlark.net/starlark"

	"flow/starlark/value"
	"flow/workflows/plan"
)

var promptKind = &kind[plan.Prompt]{
	name: "prompt",
	key:  func(p plan.Prompt) string { return plan.Sum(p) },
	label: func(p plan.Prompt) string {
		if p.File != "" {
			return fmt.Sprintf("file %q", p.File)
		}
		if p.Random > 0 {
			return fmt.Sprintf("%d random words", p.Random)
		}
		return fmt.Sprintf("%.40q", p.Text)
	},
	attrs: map[string]func(plan.Prompt) starlark.Value{
		"file": func(p plan.Prompt) starlark.Value { return textOrNone(p.File) },
		"text": func(p plan.Prompt) starlark.Value { return textOrNone(p.Text) },
	},
}

var caseKind = &kind[plan.Case]{
	name:  "case",
	key:   func(c plan.Case) string { return plan.Sum(c) },
	label: func(c plan.Case) string { return fmt.Sprintf("%q", c.Name) },
	attrs: map[string]func(plan.Case) starlark.Value{
		"name":       func(c plan.Case) starlark.Value { return text(c.Name) },
		"max_tokens": func(c plan.Case) starlark.Value { return starlark.MakeInt(c.MaxTokens) },
		"ctx":        func(c plan.Case) starlark.Value { return starlark.MakeInt(c.Ctx) },
		"prompts":    func(c plan.Case) starlark.Value { return promptKind.list(c.Prompts) },
	},
}

var workloadKind = &kind[plan.Workload]{
	name:  "workload",
	key:   func(w plan.Workload) string { return plan.Sum(w) },
	label: workloadLabel,
	attrs: map[string]func(plan.Workload) starlark.Value{
		"cases":       func(w plan.Workload) starlark.Value { return caseKind.list(w.Cases) },
		"rule":        func(w plan.Workload) starlark.Value { return text(w.Rule) },
		"temperature": func(w plan.Workload) starlark.Value { return starlark.Float(w.Temperature) },
		"seed":        func(w plan.Workload) starlark.Value { return starlark.MakeInt64(w.Seed) },
		"ignore_eos":  func(w plan.Workload) starlark.Value { return starlark.Bool(w.IgnoreEOS) },
		"nonce":       func(w plan.Workload) starlark.Value { return starlark.Bool(w.Nonce) },
		"repeat":      func(w plan.Workload) starlark.Value { return starlark.MakeInt(w.Repeat) },
		"warmup":      func(w plan.Workload) starlark.Value { return starlark.MakeInt(w.Warmup) },
		"concurrency": func(w plan.Workload) starlark.Value { return starlark.MakeInt(w.Concurrency) },
		"body":        func(w plan.Workload) starlark.Value { return fromJSON(w.Body) },
	},
}

func workloadLabel(w plan.Workload) string {
	var names []string
	for _, c := range w.Cases {
		n := c.Name
		if n == "" {
			n = fmt.Sprintf("%d prompts, %d tokens", len(c.Prompts), c.MaxTokens)
		}
		names = append(names, n)
	}
	return fmt.Sprintf("%s, repeat %d", strings.Join(names, "; "), w.Repeat)
}

func workloadFamily() Family {
	return Family{"Workloads", "What an arm asks of the engine.", []Builtin{
		{
			Name: "workload",
			Doc: "The requests of an arm: each prompt of each case `repeat` times, after `warmup` requests that are not measured. " +
				"Give exactly one of prompt, prompts and cases.",
			Example: `workload(prompt = "Write a story.", max_tokens = 128, nonce = True, repeat = 3)`,
			Func:    workloadCall,
		}, {
			Name:    "prompt_file",
			Doc:     "A prompt in a file of the workflow. It is read when arms run, not when the file loads; its digest is part of the group.",
			Example: `prompt_file("prompts/main.txt")`,
			Func: func(c *Call) (starlark.Value, error) {
				var p plan.Prompt
				err := c.Unpack(1,
					value.Param{Name: "path", Required: true, Into: nonEmpty(&p.File), Doc: "relative to the workflow's folder, or absolute"},
					value.Param{Name: "bytes", Default: "0", Into: value.Int(&p.Bytes), Doc: "take so much of its beginning, whole words: cases of several lengths from one text; 0 is all"},
				)
				if err != nil {
					return nil, err
				}
				if p.Bytes < 0 {
					return nil, c.Errorf("bytes = 16000", "got bytes %d, want at least 0", p.Bytes)
				}
				p.File = path.Clean(p.File)
				if p.File == ".." || strings.HasPrefix(p.File, "../") {
					return nil, c.Errorf("put the prompt below the workflow's folder, as in prompt_file(\"prompts/main.txt\")", "got path %q, which leaves the workflow's folder", p.File)
				}
				return promptKind.of(p), nil
			},
		}, {
			Name:    "prompt_text",
			Doc:     "A prompt as text. A plain string does the same wherever a prompt is wanted.",
			Example: `prompt_text("Count to ten.")`,
			Func: func(c *Call) (starlark.Value, error) {
				var p plan.Prompt
				if err := c.Unpack(1, value.Param{Name: "text", Required: true, Into: nonEmpty(&p.Text), Doc: "the prompt"}); err != nil {
					return nil, err
				}
				return promptKind.of(p), nil
			},
		}, {
			Name:    "prompt_random",
			Doc:     "A prompt of made-up words. Random text exercises other experts than real text and defeats speculation, and arms say so: for tests of the set-up only.",
			Example: `prompt_random(500, seed = 7)`,
			Func: func(c *Call) (starlark.Value, error) {
				var p plan.Prompt
				err := c.Unpack(1,
					value.Param{Name: "words", Required: true, Into: value.Int(&p.Random), Doc: "how many"},
					value.Param{Name: "seed", Default: "0", Into: value.Int64(&p.Seed), Doc: "equal seeds give equal words"},
				)
				if err != nil {
					return nil, err
				}
				if p.Random < 1 || p.Random > plan.MaxTokens {
					return nil, c.Errorf("prompt_random(500)", "got %d words, want 1 to %d", p.Random, plan.MaxTokens)
				}
				return promptKind.of(p), nil
			},
		}, {
			Name:    "case",
			Doc:     "A point of a workload, such as a context length: a key of requests, metrics, gates and verdicts.",
			Example: `case("4K", prompt = "long text", max_tokens = 200, ctx = 4096)`,
			Func:    caseCall,
		},
	}}
}

func caseCall(c *Call) (starlark.Value, error) {
	var k plan.Case
	var one, many []plan.Prompt
	err := c.Unpack(1,
		value.Param{Name: "name", Required: true, Into: nonEmpty(&k.Name), Doc: "the key"},
		value.Param{Name: "prompt", Default: "None", Into: promptInto(&one), Doc: "a string, prompt_file(…) or prompt_text(…)"},
		value.Param{Name: "prompts", Default: "None", Into: promptsInto(&many), Doc: "a list of them"},
		value.Param{Name: "max_tokens", Default: "None", Into: value.Int(&k.MaxTokens), Doc: "tokens of one answer; by default what the workload says"},
		value.Param{Name: "ctx", Default: "0", Into: value.Int(&k.Ctx), Doc: "what {ctx} stands for in a command; 0 is not said"},
	)
	if err != nil {
		return nil, err
	}
	if (one == nil) == (many == nil) {
		return nil, c.Errorf(fmt.Sprintf("case(%q, prompt = prompt_file(\"prompts/main.txt\"))", k.Name), "give exactly one of prompt and prompts")
	}
	k.Prompts = append(one, many...)
	if k.MaxTokens < 0 || k.Ctx < 0 {
		return nil, c.Errorf("give numbers above 0", "case %q: got max_tokens %d and ctx %d, want none below 0", k.Name, k.MaxTokens, k.Ctx)
	}
	return caseKind.of(k), nil
}

func workloadCall(c *Call) (starlark.Value, error) {
	w := plan.Workload{Repeat: 1, Warmup: 1, Concurrency: 1, Rule: "all"}
	var one, many []plan.Prompt
	var cases []plan.Case
	maxTokens := 128
	err := c.Unpack(0,
		value.Param{Name: "prompt", Default: "None", Into: promptInto(&one), Doc: "a string, prompt_file(…) or prompt_text(…)"},
		value.Param{Name: "prompts", Default: "None", Into: promptsInto(&many), Doc: "a list of them"},
		value.Param{Name: "cases", Default: "None", Into: listOf(caseKind, &cases, false), Doc: "a list of case(…)"},
		value.Param{Name: "max_tokens", Default: "128", Into: value.Int(&maxTokens), Doc: "tokens of one answer; a case may say its own"},
		value.Param{Name: "temperature", Default: "0", Into: value.Float(&w.Temperature), Doc: "of sampling; 0 is greedy, and only then outputs can be compared"},
		value.Param{Name: "seed", Default: "0", Into: value.Int64(&w.Seed), Doc: "of sampling"},
		value.Param{Name: "ignore_eos", Default: "False", Into: value.Bool(&w.IgnoreEOS), Doc: "ask for exactly max_tokens, whatever the model says; where the engine can"},
		value.Param{Name: "nonce", Default: "False", Into: value.Bool(&w.Nonce), Doc: "put a different line before each prompt of an arm, so that no prompt cache is hit; the same in every arm"},
		value.Param{Name: "repeat", Default: "1", Into: value.Int(&w.Repeat), Doc: "measured requests per prompt"},
		value.Param{Name: "warmup", Default: "1", Into: warmupInto(&w.Warmup, &w.Stable), Doc: "requests before the measured ones, of the first prompt of each case; or until_stable(…)"},
		value.Param{Name: "concurrency", Default: "1", Into: value.Int(&w.Concurrency), Doc: "requests under way at once"},
		value.Param{Name: "arrival", Default: "None", Into: pointTo(arrivalKind, &w.Arrival), Doc: "an open loop, arrival.…(…); by default a closed loop of `concurrency`"},
		value.Param{Name: "think", Default: `"0s"`, Into: value.Duration(&w.Think), Doc: "closed loop: pause between an answer and the next request"},
		value.Param{Name: "client_cpus", Default: `""`, Into: value.String(&w.ClientCPUs), Example: `"0"`, Doc: "CPUs that flow itself may use while it asks, such as \"0\" or \"0-1,4\": away from the engine's"},
		value.Param{Name: "rule", Default: `"all"`, Into: value.OneOf(&w.Rule, "all", "worst", "each"), Doc: "how several cases make one verdict: all must hold, the worst counts, or each stands alone"},
		value.Param{Name: "body", Default: "{}", Into: jsonObject(&w.Body), Example: `{"top_k": 1}`, Doc: "members of every request body"},
	)
	if err != nil {
		return nil, err
	}
	w.Pos = c.Pos()
	given := 0
	for _, said := range []bool{one != nil, many != nil, cases != nil} {
		if said {
			given++
		}
	}
	const fix = `workload(prompt = prompt_file("prompts/main.txt"), max_tokens = 128)`
	switch {
	case given == 0:
		return nil, c.Errorf(fix, "has nothing to ask: give one of prompt, prompts and cases")
	case given > 1:
		return nil, c.Errorf(fix, "got %d of prompt, prompts and cases, want exactly one", given)
	case maxTokens < 1:
		return nil, c.Errorf(fix, "got max_tokens %d, want at least 1", maxTokens)
	case w.Repeat < 1:
		return nil, c.Errorf("repeat = 1", "got repeat %d, want at least 1", w.Repeat)
	case w.Warmup < 0:
		return nil, c.Errorf("warmup = 0", "got warmup %d, want at least 0", w.Warmup)
	case w.Concurrency < 1:
		return nil, c.Errorf("concurrency = 1", "got concurrency %d, want at least 1", w.Concurrency)
	case w.Arrival != nil && w.Concurrency != 1:
		return nil, c.Errorf("keep one: arrival is an open loop, concurrency a closed one", "got both arrival and concurrency %d", w.Concurrency)
	case w.Arrival != nil && w.Think > 0:
		return nil, c.Errorf("take think away: an open loop does not wait for answers", "got both arrival and think")
	case w.Think < 0:
		return nil, c.Errorf(`think = "1s"`, "got think %s, want at least 0", w.Think)
	case w.ClientCPUs != "" && !cpuList.MatchString(w.ClientCPUs):
		return nil, c.Errorf(`client_cpus = "0-1,4"`, "got client_cpus %q, want CPUs such as \"0-1,4\"", w.ClientCPUs)
	case w.Temperature < 0:
		return nil, c.Errorf("temperature = 0", "got temperature %v, want at least 0", w.Temperature)
	}
	switch {
	case cases != nil:
		if len(cases) == 0 {
			return nil, c.Errorf(`cases = [case("4K", prompt = "…")]`, "got no cases")
		}
		seen := map[string]bool{}
		for i := range cases {
			if seen[cases[i].Name] {
				return nil, c.Errorf("give each case its own name", "case %q stands twice", cases[i].Name)
			}
			seen[cases[i].Name] = true
			if cases[i].MaxTokens == 0 {
				cases[i].MaxTokens = maxTokens
			}
		}
		w.Cases = cases
	default:
		w.Cases = []plan.Case{{Prompts: append(one, many...), MaxTokens: maxTokens}}
	}
	if what, fix := plan.TooLarge(w); what != "" {
		return nil, c.Errorf(fix, "%s", what)
	}
	return workloadKind.of(w), nil
}

var cpuList = regexp.MustCompile(`^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$`)

// prompt is a prompt or a string.
func prompt(v starlark.Value) (plan.Prompt, error) {
	switch x := v.(type) {
	case *Decl[plan.Prompt]:
		return x.V, nil
	case starlark.String:
		if x == "" {
			return plan.Prompt{}, fmt.Errorf("got an empty prompt")
		}
		return plan.Prompt{Text: string(x)}, nil
	}
	return plan.Prompt{}, fmt.Errorf("got %s, want string, prompt_file(…) or prompt_text(…)", v.Type())
}

func promptInto(to *[]plan.Prompt) value.Unpacker {
	return value.Func("prompt", func(v starlark.Value) error {
		p, err := prompt(v)
		if err != nil {
			return err
		}
		*to = []plan.Prompt{p}
		return nil
	})
}

func promptsInto(to *[]plan.Prompt) value.Unpacker {
	return value.Func("list of prompts", func(v starlark.Value) error {
		items, err := elements(v)
		if err != nil {
			return value.Wrong(v, "list of prompts")
		}
		if len(items) == 0 {
			return fmt.Errorf("got no prompts")
		}
		var out []plan.Prompt
		for i, x := range items {
			p, err := prompt(x)
			if err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			out = append(out, p)
		}
		*to = out
		return nil
	})
}
