package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// A token of this command is the server's URL, "#", and the token of package client: one sees where it leads, and a fragment is
// never sent anywhere.

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
		return "", "", errors.New("not a token of this command: there is no URL, '#' and text in it") // and no error repeats a secret
	}
	return url, token, nil
}

// readToken is where resume has its token from.
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
	if err := tokenFile(a.tokenFile).free(); err != nil {
		return "", "", err
	}
	return splitToken(text)
}

// tokenFile keeps the newest token of a call. "" keeps none.
type tokenFile string

// free reports whether no other call has the file.
func (f tokenFile) free() error {
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

// keep puts a token into the file, whole or not at all.
func (f tokenFile) keep(token string) error {
	if f == "" || token == "" {
		return nil
	}
	if err := remove(f.part()); err != nil { // of a process that was killed
		return err
	}
	part, err := os.OpenFile(f.part(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // no link of somebody else's is followed
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

// part is where a token is written before it is put into place. It has one name, so that a kill leaves no more than one behind.
func (f tokenFile) part() string { return string(f) + ".part" }

// drop removes the file: there is nothing left to come back for.
func (f tokenFile) drop() error {
	if f == "" {
		return nil
	}
	return errors.Join(remove(string(f)), remove(f.part()))
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
