package hop

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// However many sessions are asked for, a bounded number is remembered: those that were asked for last.
func TestPlacesAreBounded(t *testing.T) {
	var p Places
	often := &Place{}
	p.Put("often", often)
	for i := range 5 * maxPlaces {
		p.Put(strconv.Itoa(i), &Place{})
		if i%1000 == 0 {
			require.Same(t, often, p.Find("often"))
		}
		require.LessOrEqual(t, p.Len(), maxPlaces)
	}
	require.Nil(t, p.Find("0"))
	require.NotNil(t, p.Find(strconv.Itoa(5*maxPlaces-maxPlaces/3)))
}

func TestUnusedPlacesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Places
		p.Age()
		p.Put("used", &Place{})
		p.Put("unused", &Place{})
		for range 30 {
			<-time.After(time.Minute)
			p.Age()
			require.NotNil(t, p.Find("used"))
		}
		require.Nil(t, p.Find("unused"))
		require.Equal(t, 1, p.Len())
	})
}

// A request that finds out that a session has moved does not make others forget what is known since.
func TestOnlyTheSamePlaceIsDropped(t *testing.T) {
	var p Places
	old, fresh := &Place{}, &Place{Principal: "x"}
	p.Put("k", old)
	p.Put("k", fresh)
	p.Drop("k", old)
	require.Same(t, fresh, p.Find("k"))
	p.Drop("k", fresh)
	require.Nil(t, p.Find("k"))
}

func TestABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Budget{Burst: 10, Per: time.Second}
		take := func() (n int) {
			for b.Left() {
				b.Use()
				n++
			}
			return n
		}
		require.Equal(t, 10, take())
		require.False(t, b.Left())
		<-time.After(500 * time.Millisecond)
		require.Equal(t, 5, take())
		<-time.After(24 * time.Hour)
		require.Equal(t, 10, take(), "nothing is saved up")
		for range 10 {
			b.Use()
		}
		<-time.After(time.Second)
		require.Zero(t, take(), "what was used too much is paid back first")
		<-time.After(time.Second)
		require.Equal(t, 10, take())
	})
}
