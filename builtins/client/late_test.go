package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"flow/workflows/plan"
	"flow/workflows/record"
)

// prepared is a link whose answer has come when its request has been written.
type prepared struct {
	began int64
	early bool
	text  string
	at    stamp
}

func (p *prepared) send([]byte, func() int64) (int64, bool, error) { return p.began, p.early, nil }

func (p *prepared) deliver(take func(b []byte, at stamp, err error) taken) {
	if !take([]byte(p.text), p.at, nil).over {
		take(nil, p.at, errors.New("no more"))
	}
}

func (p *prepared) cut()                  {}
func (p *prepared) cutIn(d time.Duration) {}
func (p *prepared) rest() bool            { return true }
func (p *prepared) stale() bool           { return false }
func (p *prepared) Close() error          { return nil }

// On a busy machine the thread that wrote the request may be away while the kernel stamps the answer. The end
// of sending must not come after it: that would be a negative time to the first token.
func TestSentBeforeAnswered(t *testing.T) {
	const ms = int64(time.Millisecond)
	const began, answered = 1000 * ms, 1004 * ms
	for name, tt := range map[string]struct {
		back int64 // when the thread is back from the write
		want int64
		warn bool
	}{
		"in time":     {1001 * ms, 1001 * ms, false},
		"just late":   {answered + ms/2, began, false},
		"late by far": {answered + 5*ms, began, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Client{o: Options{API: plan.API{Kind: plan.APIChat}, Now: func() int64 { return tt.back }}}
			a := newAnswer(plan.APIChat, record.Request{})
			l := &prepared{began, false, sseHead + chunked(chatFrame("a")+finishFrame+doneFrame) + lastOne, stamp{ns: answered, kernel: true}}
			again, err := c.converse(t.Context(), &wire{link: l}, nil, a)
			r := a.finish(err)
			if again || r.Status != statusOK || *r.SentNS != tt.want || *r.FirstContentNS != answered {
				t.Errorf("got %s %q, sent %d, first content %d, want sent %d", r.Status, r.Error, *r.SentNS, *r.FirstContentNS, tt.want)
			}
			if got := slices.Contains(r.Warnings, lateStamp); got != tt.warn {
				t.Errorf("warnings %q", r.Warnings)
			}
		})
	}
}
