package hop

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func isProbe(r *http.Request) bool { return strings.Contains(r.Header.Get(Header), "; probe") }

// A Transport of the user that panics, or breaks its contract, fails requests. It ends no process.
func TestATransportThatPanicsAtAProbe(t *testing.T) {
	for name, probe := range map[string]transport{
		"panics":         func(*http.Request) (*http.Response, error) { panic("x") },
		"nothing at all": func(*http.Request) (*http.Response, error) { return nil, nil },
		"no body": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := quick(t, transport(func(r *http.Request) (*http.Response, error) {
				if isProbe(r) {
					return probe(r)
				}
				select {
				case <-r.Context().Done():
				case <-time.After(2 * time.Second):
				}
				return nil, errors.New("x")
			}))
			_, err := f.Send(Owner{"http://x", "I"}, post(t, nil))
			require.Error(t, err)
			require.Error(t, f.ProbeSelf(t.Context(), "I", post(t, nil).Request))
		})
	}
}

// A response without a body is as one with an empty one.
func TestATransportWithoutABody(t *testing.T) {
	f := quick(t, transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{Mark: {"I"}}, ContentLength: -1}, nil
	}))
	require.Empty(t, whole(t, f, Owner{"http://x", "I"}, post(t, nil)))
	f = quick(t, transport(func(*http.Request) (*http.Response, error) { return nil, nil }))
	_, err := f.Send(Owner{"http://x", "I"}, post(t, nil))
	require.Error(t, err)
}
