package hop

import "testing"

// A retry alone ends a stream, and that of a primer does not.
func TestEndsInRetry(t *testing.T) {
	for events, want := range map[string]bool{
		"retry: 1000\n\n":                                       true,
		"id: a.0\nretry: 1000\ndata: \n\n":                      false,
		"id: a.0\nretry: 1000\ndata: \n\nretry: 9\n\n":          true,
		"id: a.0\nretry: 1000\ndata: \n\nid: a.1\ndata: {}\n\n": false,
		"retry: 9\n\nid: a.1\ndata: {}\n\n":                     false,
		": \n\n":                                                false,
		"data: retry: 9\n\n":                                    false,
	} {
		if got := endsInRetry([]byte(events)); got != want {
			t.Errorf("%q: %v", events, got)
		}
	}
}
