// Package adoptions tests servers of an SDK behind their bridge in a cluster: one process opens a session, ends without a word, and another one
// goes on. Both bridges use it. The tests see HTTP, in virtual time.
package adoptions
