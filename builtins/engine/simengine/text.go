package simengine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The tokenizer: a token is the white space before a word and at most maxPiece bytes of it. It is a toy,
// but an honest one: cutting the generated text again gives the tokens that were generated.
const maxPiece = 12

// vocabulary is what the engine can say: every entry is one token. Some hold characters of several bytes,
// so that a client that cuts them shows.
const vocabulary = " river, stone, morning, über, quiet, signal, harbour, north, copper, field, naïve, window, " +
	"slowly, green, thirty, café, engine, between, silver, road, winter, paper, résumé, carries, light, under, seven, " +
	"東京, bridge, letter, turning, grey, orchard, jalapeño, distant, open, salt, measure, evening, ☃snow, rails, small, " +
	"answers, without, name, ñandú, valley, returns, early, glass, always, never, 🚂train, keeps, order, warm, dust, " +
	"number, pale, stream, cold, voices, gather, south"

// pieces cuts text into tokens.
func pieces(text string) []string {
	var out []string
	for len(text) > 0 {
		n := pieceLen(text)
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// pieceLen is the length in bytes of the first token of a text that is not empty.
func pieceLen(text string) int {
	i := 0
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	word := 0
	for i < len(text) && !isSpace(text[i]) {
		_, size := utf8.DecodeRuneInString(text[i:])
		if word+size > maxPiece {
			break
		}
		word += size
		i += size
	}
	return i
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// keys are the tokens as numbers, for the prompt cache and for /tokenize.
func keys(text string) []uint64 {
	var out []uint64
	for len(text) > 0 {
		n := pieceLen(text)
		h := fnv.New64a()
		_, _ = h.Write([]byte(text[:n]))
		out = append(out, h.Sum64())
		text = text[n:]
	}
	return out
}

// tokenID is a number of a token that fits where engines print ids.
func tokenID(piece string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(piece))
	return int(h.Sum32() >> 8)
}

// writer says the words of one generation, one token a call.
type writer struct {
	rng   *rand.Rand
	words []string
}

// newWriter is greedy: what it says depends on the prompt and on flavour (the text levers that are on).
// With a temperature it depends on the seed too.
func newWriter(prompt, flavour string, temperature float64, seed int64) *writer {
	h := sha256.New()
	h.Write([]byte(prompt))
	h.Write([]byte{0})
	h.Write([]byte(flavour))
	if temperature > 0 {
		h.Write([]byte(strconv.FormatInt(seed, 10)))
	}
	sum := h.Sum(nil)
	return &writer{
		rng:   rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:]))),
		words: strings.Split(vocabulary, ","),
	}
}

func (w *writer) next() string { return w.words[w.rng.IntN(len(w.words))] }

// madeUp is a prompt of n tokens.
func madeUp(n int, seed int64) string {
	w := newWriter("prompt", "", 1, seed)
	var b strings.Builder
	for range n {
		b.WriteString(w.next())
	}
	return b.String()
}
