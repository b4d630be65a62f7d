package door

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAccepted(t *testing.T) {
	for _, tt := range []struct {
		header       []string
		json, stream bool
	}{
		{nil, true, true},
		{[]string{"*/*"}, true, true},
		{[]string{"*"}, true, true},
		{[]string{"application/json, text/event-stream"}, true, true},
		{[]string{"application/json", "text/event-stream"}, true, true},
		{[]string{"Application/JSON"}, true, false},
		{[]string{"text/event-stream;charset=utf-8"}, false, true},
		{[]string{"text/*"}, false, true},
		{[]string{"application/*;q=0.1"}, true, false},
		{[]string{"*/*, application/json;q=0"}, false, true},
		{[]string{"application/json;q=0, */*"}, false, true},
		{[]string{"*/*;q=0"}, false, false},
		{[]string{"text/*;q=0.0, text/event-stream;q=1"}, false, true},
		{[]string{"text/html"}, false, false},
		{[]string{""}, false, false},
		{[]string{"application/json ; q=0 ; x=y"}, false, false},
		{[]string{"application/json;q=x"}, true, false},
		{[]string{"application/jsonx"}, false, false},
	} {
		json, stream := Accepted(tt.header)
		require.Equal(t, tt.json, json, "JSON, %q", tt.header)
		require.Equal(t, tt.stream, stream, "SSE, %q", tt.header)
	}
}

func TestIsJSON(t *testing.T) {
	for _, yes := range []string{"application/json", "Application/Json", "application/json; charset=utf-8", " application/json ;x"} {
		require.True(t, IsJSON(yes), "%q", yes)
	}
	for _, no := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json/x"} {
		require.False(t, IsJSON(no), "%q", no)
	}
}
