package jsonrpc

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestField(t *testing.T) {
	const obj = ` {"a":1,"b":{"c":"x","d":[1,{"c":2}],"e":null},"\u0066\u0066":{"g\/\ud83d\ude00":true},"":0,"i":1,"i":2,"ä":3,"\ud800":4} `
	for _, c := range []struct {
		path []string
		want string // "-" for none
	}{
		{[]string{"a"}, `1`},
		{[]string{"A"}, `-`}, // case matters
		{[]string{"b"}, `{"c":"x","d":[1,{"c":2}],"e":null}`},
		{[]string{"b", "c"}, `"x"`},
		{[]string{"b", "d"}, `[1,{"c":2}]`},
		{[]string{"b", "e"}, `null`},
		{[]string{"c"}, `-`},
		{[]string{"b", "a"}, `-`},
		{[]string{"a", "b"}, `-`},      // a number has no members
		{[]string{"b", "d", "c"}, `-`}, // nor has an array
		{[]string{"b", "d", "0"}, `-`},
		{[]string{"ff", "g/😀"}, `true`},
		{[]string{"\\u0066\\u0066"}, `-`},
		{[]string{"f"}, `-`},
		{[]string{""}, `0`},
		{[]string{"i"}, `2`}, // the last one counts
		{[]string{"ä"}, `3`},
		{[]string{"\ufffd"}, `4`},
		{nil, strings.TrimLeft(obj, " ")},
	} {
		v, ok := Field([]byte(obj), c.path...)
		got := "-"
		if ok {
			got = string(v)
		}
		require.Equal(t, c.want, got, "%q", c.path)
		require.Equal(t, ok, v != nil)
	}
}

func TestFieldOfGarbage(t *testing.T) {
	for _, obj := range []string{``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":"`, `{"a":1,`, `{"a":1,"b`, `[{"a":1}]`, `1`, `{a:1}`, `{"a":1]`, "{\"a\":1,\"\xff\":1}"} {
		v, ok := Field([]byte(obj), "a")
		require.False(t, ok, obj)
		require.Nil(t, v, obj)
	}
	_, ok := Field(nil)
	require.False(t, ok, "nothing is no value")
}

func TestFieldDoesNotAllocate(t *testing.T) {
	obj := []byte(`{"x":[1,2,3],"_meta":{"progress\u0054oken":"t"}}`)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, ok := Field(obj, "_meta", "progressToken"); !ok {
			panic("not found")
		}
	}))
}
