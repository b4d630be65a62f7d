package conformance_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// progress collects the progress notifications of a client.
type progress struct {
	mu      sync.Mutex
	seen    map[string][]float64 // by token
	changed chan struct{}
}

func newProgress() *progress {
	return &progress{seen: map[string][]float64{}, changed: make(chan struct{}, 1)}
}

func (p *progress) handler(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[token] = append(p.seen[token], r.Params.Progress)
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// require waits until as many notifications have come as wanted, and compares them. Inside the client the result of a call may overtake the
// last progress.
func (p *progress) require(t *testing.T, token string, want ...float64) {
	t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		got := slices.Clone(p.seen[token])
		p.mu.Unlock()
		if len(got) >= len(want) {
			require.Equal(t, want, got, "progress of %s: each once and in order", token)
			return
		}
		select {
		case <-p.changed:
		case <-deadline:
			t.Fatalf("progress of %s: %v wanted, %v seen", token, want, got)
		}
	}
}
