package bounds

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is small reaches the SDK as it is; of what is large, what names the client and what it offers.
func TestOpening(t *testing.T) {
	const info, offers = `{"name":"c","version":"1"}`, `{"roots":{}}`
	for params, want := range map[string]string{
		``:   ``,
		`{}`: `{}`,
		`{"protocolVersion":"v","clientInfo":{"icons":[1,2]},"x":[{}]}`:                                         `{"protocolVersion":"v","clientInfo":{"icons":[1,2]},"x":[{}]}`,
		`{"protocolVersion":"v","x":"` + strings.Repeat("x", OpeningBytes) + `"}`:                               `{"protocolVersion":"v","capabilities":` + offers + `,"clientInfo":` + info + `}`,
		`{"protocolVersion":"v","capabilities":{"experimental":[1` + strings.Repeat(",1", OpeningParts) + `]}}`: `{"protocolVersion":"v","capabilities":` + offers + `,"clientInfo":` + info + `}`,
		`{"x":[` + strings.Repeat("[", OpeningParts):                                                            `{"capabilities":` + offers + `,"clientInfo":` + info + `}`,
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
