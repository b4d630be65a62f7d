//go:build !unix

package main

import (
	"context"
	"errors"
)

func startEngine(context.Context) (address string, closeIt func() error, err error) {
	return "", nil, errors.New("this example kills processes and tells them to end, for which it needs Unix")
}
