package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestRealEngine screens a lever of a real llama.cpp, the prebuilt one of an npm package, on a model with
// random weights that it writes itself. FLOW_NODE_LLAMA names the folder with node_modules; .ci/run fills it.
func TestRealEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("a real engine takes half a minute")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not here: install Node.js 20 or newer")
	}
	folder := os.Getenv("FLOW_NODE_LLAMA")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip("FLOW_NODE_LLAMA names no folder with node-llama-cpp, and there is no cache folder")
		}
		folder = filepath.Join(cache, "flow", "node-llama")
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "node-llama-cpp")); err != nil {
		t.Skipf("node-llama-cpp is not in %s: copy testdata/realengine/package*.json there and run npm ci --omit=optional --ignore-scripts", folder)
	}
	model := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(model, randomModel(), 0o644); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.Abs(filepath.Join("testdata", "realengine"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 real,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			for name, v := range map[string]string{"REAL": real, "MODEL": model, "FOLDER": folder} {
				e.Setenv(name, v)
			}
			return isolate(e)
		},
	})
}

// gguf writes the format that llama.cpp reads: a header, metadata, tensor places, tensors.
type gguf struct {
	meta, places, data bytes.Buffer
	keys, tensors      uint64
}

// Types of metadata.
const (
	ggufUint32 = 4
	ggufInt32  = 5
	ggufFloat  = 6
	ggufBool   = 7
	ggufString = 8
	ggufArray  = 9
)

func put(w *bytes.Buffer, vs ...any) {
	for _, v := range vs {
		if s, ok := v.(string); ok {
			put(w, uint64(len(s)))
			w.WriteString(s)
			continue
		}
		_ = binary.Write(w, binary.LittleEndian, v) // a buffer takes everything
	}
}

func (g *gguf) set(key string, kind uint32, v any) {
	g.keys++
	put(&g.meta, key, kind, v)
}

func list[T any](g *gguf, key string, kind uint32, vs []T) {
	g.keys++
	put(&g.meta, key, uint32(ggufArray), kind, uint64(len(vs)))
	for _, v := range vs {
		put(&g.meta, v)
	}
}

func (g *gguf) tensor(name string, values []float32, dims ...uint64) {
	g.tensors++
	put(&g.places, name, uint32(len(dims)))
	for _, d := range dims {
		put(&g.places, d)
	}
	put(&g.places, uint32(0), uint64(g.data.Len()))
	put(&g.data, values)
	g.data.Write(make([]byte, (32-g.data.Len()%32)%32))
}

func (g *gguf) bytes() []byte {
	var out bytes.Buffer
	out.WriteString("GGUF")
	put(&out, uint32(3), g.tensors, g.keys)
	out.Write(g.meta.Bytes())
	out.Write(g.places.Bytes())
	out.Write(make([]byte, (32-out.Len()%32)%32))
	out.Write(g.data.Bytes())
	return out.Bytes()
}

// randomModel is a llama of two layers with random weights and a vocabulary that falls back to bytes. It
// never says a byte or a control token, because their rows of the output are zero and some other is above:
// what it says is valid text, though garbage.
func randomModel() []byte {
	const width, layers, heads, inner = 64, 2, 4, 128
	var words []string
	var kinds []int32
	word := func(kind int32, w string) { words, kinds = append(words, w), append(kinds, kind) }
	const normal, unknown, control, byteOf = 1, 2, 3, 6
	word(unknown, "<unk>")
	word(control, "<s>")
	word(control, "</s>")
	for i := range 256 {
		word(byteOf, fmt.Sprintf("<0x%02X>", i))
	}
	silent := len(words)
	for _, w := range []string{"▁", "▁the", "▁a", "▁token", "▁gpu", "▁run", "▁runs", "▁river", "▁stone"} {
		word(normal, w)
	}
	for c := '!'; c <= '~'; c++ {
		word(normal, string(c))
	}
	scores := make([]float32, len(words))
	for i := range scores {
		scores[i] = -float32(i)
	}
	n := len(words)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(k int) []float32 {
		out := make([]float32, k)
		for i := range out {
			out[i] = float32(rng.NormFloat64() * .15)
		}
		return out
	}
	ones := make([]float32, width)
	for i := range ones {
		ones[i] = 1
	}
	g := &gguf{}
	g.set("general.architecture", ggufString, "llama")
	g.set("general.name", ggufString, "random")
	g.set("general.alignment", ggufUint32, uint32(32))
	g.set("general.file_type", ggufUint32, uint32(0))
	for key, v := range map[string]uint32{"context_length": 4096, "embedding_length": width, "block_count": layers, "feed_forward_length": inner,
		"attention.head_count": heads, "attention.head_count_kv": heads, "rope.dimension_count": width / heads, "vocab_size": uint32(n)} {
		g.set("llama."+key, ggufUint32, v)
	}
	g.set("llama.attention.layer_norm_rms_epsilon", ggufFloat, float32(1e-5))
	g.set("tokenizer.ggml.model", ggufString, "llama")
	list(g, "tokenizer.ggml.tokens", ggufString, words)
	list(g, "tokenizer.ggml.scores", ggufFloat, scores)
	list(g, "tokenizer.ggml.token_type", ggufInt32, kinds)
	g.set("tokenizer.ggml.bos_token_id", ggufUint32, uint32(1))
	g.set("tokenizer.ggml.eos_token_id", ggufUint32, uint32(2))
	g.set("tokenizer.ggml.unknown_token_id", ggufUint32, uint32(0))
	g.set("tokenizer.ggml.add_bos_token", ggufBool, true)
	output := random(width * n)
	for i := range silent * width {
		output[i] = 0
	}
	g.tensor("token_embd.weight", random(width*n), width, uint64(n))
	g.tensor("output_norm.weight", ones, width)
	g.tensor("output.weight", output, width, uint64(n))
	for i := range layers {
		block := fmt.Sprintf("blk.%d.", i)
		g.tensor(block+"attn_norm.weight", ones, width)
		g.tensor(block+"ffn_norm.weight", ones, width)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			g.tensor(block+name+".weight", random(width*width), width, width)
		}
		g.tensor(block+"ffn_gate.weight", random(width*inner), width, inner)
		g.tensor(block+"ffn_up.weight", random(width*inner), width, inner)
		g.tensor(block+"ffn_down.weight", random(width*inner), inner, width)
	}
	return g.bytes()
}

// The model's file is one that a reader of the format accepts, with finite weights.
func TestRandomModel(t *testing.T) {
	b := randomModel()
	if !bytes.HasPrefix(b, []byte("GGUF\x03\x00\x00\x00")) || len(b) < 400_000 || len(b) > 1_000_000 {
		t.Errorf("got %d bytes that begin %q", len(b), b[:8])
	}
	for i := len(b) - 4*64; i < len(b); i += 4 {
		if f := math.Float32frombits(binary.LittleEndian.Uint32(b[i:])); math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			t.Fatalf("weight at byte %d is %v", i, f)
		}
	}
}
