package demo

import (
	"net/http"
	"strings"
)

// Users and Admins map bearer tokens to names. A real server would ask its identity provider.
var (
	Users  = map[string]string{"token-of-ada": "Ada", "token-of-grace": "Grace"}
	Admins = map[string]string{"token-of-root": "root"}
)

// UserOf returns the name that belongs to a request's bearer token; false if the token is not in names.
func UserOf(r *http.Request, names map[string]string) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	name, ok := names[token]
	return name, ok && strings.EqualFold(scheme, "Bearer")
}
