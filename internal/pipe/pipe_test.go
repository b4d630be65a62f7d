package pipe

import (
	"io"
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// inPipe runs a test on the two ends of a connection.
func inPipe(t *testing.T, f func(t *testing.T, a, b *Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
		a, b := New(addr, addr)
		f(t, a, b)
	})
}

func TestPipeDeliversAndEnds(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		_, err := a.Write([]byte("hello"))
		require.NoError(t, err, "a write does not wait for a reader")
		p := make([]byte, 2)
		n, err := b.Read(p)
		require.NoError(t, err)
		require.Equal(t, "he", string(p[:n]))
		require.NoError(t, a.Close())
		rest, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "llo", string(rest), "what was written before the close is read")
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Read(p)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

func TestPipeCloseWrite(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		require.NoError(t, a.CloseWrite())
		_, err := b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = b.Write([]byte("x"))
		require.NoError(t, err, "the other direction works")
		n, err := a.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestPipeIsBounded(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		data := strings.Repeat("0123456789", 20_000)
		done := false
		go func() {
			n, err := a.Write([]byte(data))
			done = n == len(data) && err == nil
			_ = a.Close()
		}()
		synctest.Wait()
		require.False(t, done)
		require.Len(t, b.in.buf, bufferSize)
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, data, string(got))
		require.True(t, done)
	})
}

func TestPipeWithAnotherBuffer(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		a.SetReadBuffer(math.MaxInt)
		data := make([]byte, 10*bufferSize)
		n, err := b.Write(data)
		require.NoError(t, err)
		require.Len(t, data, n)
		a.SetReadBuffer(0)
		require.NoError(t, b.SetDeadline(time.Now().Add(time.Second)))
		n, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a client that takes nothing more")
		require.Zero(t, n)
		require.NoError(t, b.SetDeadline(time.Time{}))
		a.SetReadBuffer(math.MaxInt)
		_, err = b.Write([]byte("x"))
		require.NoError(t, err)
		got, ended := a.Unread()
		require.Equal(t, string(data)+"x", string(got))
		require.False(t, ended)
		require.NoError(t, b.CloseWrite())
		a.Reset()
		got, ended = a.Unread()
		require.Len(t, got, len(data)+1, "it had come")
		require.True(t, ended)
		_, err = a.Read(data)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestPipeDeadlines(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		began := time.Now()
		require.NoError(t, a.SetDeadline(began.Add(time.Second)))
		n, err := a.Write(make([]byte, bufferSize+1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, bufferSize, n, "what fits was written")
		require.Equal(t, time.Second, time.Since(began))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		require.NoError(t, a.SetDeadline(time.Time{}))
		_, err = io.CopyN(io.Discard, b, bufferSize)
		require.NoError(t, err)
		_, err = a.Write([]byte("x"))
		require.NoError(t, err, "a deadline that was taken back is gone")

		require.NoError(t, b.SetReadDeadline(time.Unix(1, 0)))
		_, err = b.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "also where there is something to read, as in package net")
	})
}

func TestPipeDeadlineIsMoved(t *testing.T) {
	inPipe(t, func(t *testing.T, a, _ *Conn) {
		began := time.Now()
		require.NoError(t, a.SetReadDeadline(began.Add(time.Second)))
		go func() {
			<-time.After(time.Second - 1)
			_ = a.SetReadDeadline(began.Add(time.Minute))
		}()
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(began))
		go func() {
			<-time.After(time.Second)
			_ = a.SetReadDeadline(time.Unix(1, 0)) // what net/http does to interrupt a read
		}()
		require.NoError(t, a.SetReadDeadline(time.Time{}))
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(began))
	})
}

func TestPipeReset(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		_, err := a.Write([]byte("lost"))
		require.NoError(t, err)
		a.Freeze(true)
		var readErr, writeErr error
		go func() { _, readErr = a.Read(make([]byte, 1)) }()
		go func() { _, writeErr = b.Write(make([]byte, 2*bufferSize)) }()
		synctest.Wait()
		a.Reset()
		synctest.Wait()
		require.ErrorIs(t, readErr, syscall.ECONNRESET)
		require.ErrorIs(t, writeErr, syscall.ECONNRESET)
		_, err = b.Read(make([]byte, 10))
		require.ErrorIs(t, err, syscall.ECONNRESET, "what was under way is lost")
	})
}

func TestPipeFreeze(t *testing.T) {
	inPipe(t, func(t *testing.T, a, b *Conn) {
		a.Freeze(true)
		_, err := b.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		var got []byte
		go func() { got, err = io.ReadAll(a) }()
		synctest.Wait()
		require.Empty(t, got, "neither what was written nor the close is seen")
		a.Freeze(false)
		synctest.Wait()
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
	})
}
