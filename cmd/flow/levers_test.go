package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const someHelp = `usage: llama-server [options]

----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
--no-mmap                               do not map the model
  --ctx=TOKENS   context
      --spec <n>     draft tokens
  -M#                Set the limit to # megabytes
  --size-hint=#      Expect # bytes
  --format=zstd      Compress to the other format
text - with a dash
`

func TestParseFlags(t *testing.T) {
	got := parseFlags(someHelp)
	var words []string
	for _, f := range got {
		words = append(words, strings.Join(f.Names, ",")+"="+f.Value)
	}
	want := []string{"-h,--help,--usage=", "-t,--threads=N", "-fa,--flash-attn=[on|off|auto]", "--no-mmap=", "--ctx=TOKENS", "--spec=n", "-M=#", "--size-hint=#", "--format=zstd"}
	if !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
	if got[1].Doc != "number of CPU threads to use during generation (default: -1)" {
		t.Errorf("got doc %q", got[1].Doc)
	}
	if m := got[6]; m.words() != "-M#" || m.Doc != "Set the limit to # megabytes" || got[7].words() != "--size-hint #" || got[1].words() != "-t, --threads N" {
		t.Errorf("got %q, %q; %q, %q", m.words(), m.Doc, got[7].words(), got[1].words())
	}
	if file := leverFile(&knobs{Binary: "zstd", Flags: got}); !strings.Contains(file, `lever("M", args = {"-M#": True}`) {
		t.Errorf("a joined value is one word of the command line, got\n%s", file)
	}
}

func TestEnvNames(t *testing.T) {
	b := []byte("\x00GGML_OP_OFFLOAD_MIN_BATCH\x00text with DS4_NOT_ALONE in it\x00DS4_METAL_DISABLE\x00LC_ALL\x00lower_case\x00A_B\x00\xffLAST_ONE")
	if got, want := envNames(b), []string{"DS4_METAL_DISABLE", "GGML_OP_OFFLOAD_MIN_BATCH", "LAST_ONE"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What speaks for a name: the help, the family of a name in it, a known library, a switch's word after a prefix.
func TestLikelyEnv(t *testing.T) {
	help := "-t, --threads N   threads\n   (env: ENG_ARG_THREADS)\n  a Q4_K_M model\n"
	names := []string{"ADD_REL_POS", "GCONV_PATH", "ENABLE_STAT4", "ENG_ARG_THREADS", "ENG_BATCH", "GGML_OP_OFFLOAD_MIN_BATCH", "MY_CACHE_SLOTS", "NO_COLOR", "Q4_K_M", "SOFT_MAX_BACK", "X1_ROWS_MAX", "XZ_OPT"}
	likely, other := likelyEnv(names, help, "xz-5")
	if want := []string{"ENG_ARG_THREADS", "ENG_BATCH", "GGML_OP_OFFLOAD_MIN_BATCH", "MY_CACHE_SLOTS", "NO_COLOR", "X1_ROWS_MAX", "XZ_OPT"}; !slices.Equal(likely, want) {
		t.Errorf("likely: got %q, want %q", likely, want)
	}
	if want := []string{"ADD_REL_POS", "ENABLE_STAT4", "Q4_K_M", "SOFT_MAX_BACK"}; !slices.Equal(other, want) {
		t.Errorf("other: got %q, want %q", other, want)
	}
}

// Of a real binary only the data is read: compilers put the beginnings of literals into instructions, with bytes
// of code behind them that read as letters. The binary is this test's own.
func TestEnvNamesOfARealBinary(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	ofData := envNamesOf(exe)
	if len(ofData) == 0 || !slices.Contains(ofData, "ENGINE_CACHE_SLOTS") {
		t.Errorf("got %q in the data, want ENGINE_CACHE_SLOTS of this file among them", ofData)
	}
	for _, n := range ofData {
		if !bytes.Contains(whole, []byte(n)) {
			t.Errorf("%s is in the data and not in the bytes", n)
		}
	}
	// Go writes its literals one behind the other: what loads one says where it ends. FLOW_DB is read by this program.
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" && !slices.Contains(ofData, "FLOW_DB") {
		t.Errorf("got %q, want FLOW_DB among them", ofData)
	}
}

func FuzzParseFlags(f *testing.F) {
	f.Add(someHelp)
	f.Add("-a,-b,--c=D e\n\t--x\n")
	f.Fuzz(func(t *testing.T, help string) {
		for _, x := range parseFlags(help) {
			if len(x.Names) == 0 || slices.ContainsFunc(x.Names, func(n string) bool { return n == "" || n[0] != '-' }) {
				t.Errorf("got %+v of %q", x, help)
			}
		}
		_ = envNames([]byte(help))
	})
}

// A program of a few lines: its flags, the names in its bytes, and a lever file that loads.
func TestLeversOfAProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "engine")
	text := "#!/bin/sh\necho '  --fast N   go faster'\nexit 1\n\x00ENGINE_CACHE_SLOTS\x00"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	k, err := knobsOf(context.Background(), program)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Flags) != 1 || k.Flags[0].Names[0] != "--fast" || !slices.Equal(k.Env, []string{"ENGINE_CACHE_SLOTS"}) {
		t.Errorf("got %+v", k)
	}
	file := leverFile(k)
	for _, want := range []string{`# lever("fast", args = {"--fast": "N"}`, `# lever("engine-cache-slots", env = {"ENGINE_CACHE_SLOTS": "1"}`} {
		if !strings.Contains(file, want) {
			t.Errorf("no %s in\n%s", want, file)
		}
	}
	star := filepath.Join(dir, "levers.star")
	if err := os.WriteFile(star, []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := check(context.Background(), star, nil); err != nil {
		t.Errorf("the file does not load: %v", err)
	}
	if _, err := knobsOf(context.Background(), filepath.Join(dir, "nothing")); err == nil {
		t.Error("a program that is not there was accepted")
	}
}
