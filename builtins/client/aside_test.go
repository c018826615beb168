package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"flow/workflows/plan"
)

// A metrics page that never comes is waited for no longer than a request, one without end is not read.
func TestMetricsBounded(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"hung": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for line := []byte(strings.Repeat("x_total 1\n", 1000)); r.Context().Err() == nil; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		},
	} {
		srv := httptest.NewServer(h)
		limit := 200 * time.Millisecond
		if name == "endless" {
			limit = 20 * time.Second
		}
		c := New(Options{API: plan.API{Kind: plan.APIChat, Metrics: "/metrics"}, BaseURL: srv.URL, Now: func() int64 { return 0 }, Timeout: limit})
		m, err := c.Metrics(t.Context())
		if err == nil || name == "endless" && !strings.Contains(err.Error(), "more than 8 MiB") {
			t.Errorf("%s: got %d series and %v, want an error", name, len(m), err)
		}
		c.Close()
		srv.Close()
	}
}
