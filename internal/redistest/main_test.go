//go:build redis && unix

package redistest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// parentEnv tells this program to be a parent that starts a server, says where it is, and does nothing more.
const parentEnv = "REDISTEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		s, err := Start(context.Background(), Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stdout, s.Addr(), s.Folder())
		select {}
	}
	os.Exit(m.Run())
}

// limit is how long a test waits for what must happen.
const limit = 20 * time.Second
