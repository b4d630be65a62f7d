// Package door reads what an HTTP request says before anything is done with it: where it comes from, which forms of an answer its client
// accepts, and its body. It knows nothing of sessions.
package door
