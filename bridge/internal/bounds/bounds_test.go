package bounds

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Small params are not changed. Of large params the SDK gets the version, clientInfo and capabilities.
func TestOpening(t *testing.T) {
	const info, offers, small = `{"name":"c","version":"1"}`, `{"roots":{}}`, `{"protocolVersion":"v","clientInfo":{"icons":[1,2]},"x":[{}]}`
	kept := `"capabilities":` + offers + `,"clientInfo":` + info + `}`
	for params, want := range map[string]string{
		``: ``, `{}`: `{}`, small: small,
		`{"protocolVersion":"v","x":"` + strings.Repeat("x", OpeningBytes) + `"}`:                               `{"protocolVersion":"v",` + kept,
		`{"protocolVersion":"v","capabilities":{"experimental":[1` + strings.Repeat(",1", OpeningParts) + `]}}`: `{"protocolVersion":"v",` + kept,
		`{"x":[` + strings.Repeat("[", OpeningParts):                                                            `{` + kept,
	} {
		require.Equal(t, want, string(Opening([]byte(params), []byte(info), []byte(offers))), "%.100s", params)
	}
	long := []byte(`{"x":"` + strings.Repeat("x", OpeningBytes) + `"}`)
	require.Equal(t, `{}`, string(Opening(long, nil, nil)))
	icons := `{"title":7,"icons":[{}` + strings.Repeat(",{}", OpeningParts) + `],"name":"c"}`
	require.JSONEq(t, `{"clientInfo":{"name":"c"}}`, string(Opening(long, []byte(icons), nil)))
}

func TestNoteSize(t *testing.T) {
	require.Equal(t, 3, NoteSize([]byte("abc"), nil))
	require.Equal(t, 3+2*(1+64)+2, NoteSize([]byte("abc"), http.Header{"A": {"b", "c"}}))
}
