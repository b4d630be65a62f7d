package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// A token of this command is the server's URL, "#", and the token of package client: the reader sees which server it is for, and a URL's
// fragment is never sent to a server.

func joinToken(url, token string) string {
	if token == "" {
		return ""
	}
	url, _, _ = strings.Cut(url, "#")
	return url + "#" + token
}

func splitToken(text string) (url, token string, err error) {
	url, token, ok := strings.Cut(strings.TrimSpace(text), "#")
	if !ok || url == "" || token == "" {
		return "", "", errors.New("not a token of this command: there is no URL, '#' and text in it") // errors do not repeat secrets
	}
	return url, token, nil
}

// readToken returns the token for resume: from the arguments, stdin or the token file.
func (a *app) readToken(args []string) (url, token string, err error) {
	var text string
	switch {
	case len(args) == 1 && args[0] == "-":
		raw, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20))
		if err != nil {
			return "", "", err
		}
		text = string(raw)
	case len(args) == 1:
		text = args[0]
	case a.tokenFile != "":
		raw, err := os.ReadFile(a.tokenFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", "", fmt.Errorf("there is no %s: the call has ended, or it has not begun", a.tokenFile)
		case err != nil:
			return "", "", err
		}
		return splitToken(string(raw))
	default:
		return "", "", errors.New("resume wants a token, or a --token-file")
	}
	if err := tokenFile(a.tokenFile).unused(); err != nil {
		return "", "", err
	}
	return splitToken(text)
}

// tokenFile is the name of the file that has the newest token of a call. "" means that there is none.
type tokenFile string

// unused returns an error if the file exists: it may be the file of another call.
func (f tokenFile) unused() error {
	if f == "" {
		return nil
	}
	switch _, err := os.Lstat(string(f)); {
	case err == nil:
		return fmt.Errorf("%s exists, and may hold the token of another call: resume that, or remove it", f)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// write replaces the file's content by token, whole or not at all.
func (f tokenFile) write(token string) error {
	if f == "" || token == "" {
		return nil
	}
	if err := remove(f.part()); err != nil { // a process that was killed may have left it
		return err
	}
	part, err := os.OpenFile(f.part(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL: a link that another user made is not followed
	if err != nil {
		return err
	}
	_, err = part.WriteString(token + "\n")
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(f.part(), string(f))
	}
	if err != nil {
		return errors.Join(err, remove(f.part()))
	}
	return nil
}

// part is the file that a token is written to before it gets its name. Its own name is fixed, so that kills leave at most one behind.
func (f tokenFile) part() string { return string(f) + ".part" }

// remove removes the file, if it is there.
func (f tokenFile) remove() error {
	if f == "" {
		return nil
	}
	return errors.Join(remove(string(f)), remove(f.part()))
}

// remove removes a file. It is not an error if there is none.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
