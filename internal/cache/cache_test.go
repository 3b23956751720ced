package cache_test

import (
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/cache"
)

func store(c *cache.Cache[int, string], key int, value string) string {
	return c.Update(key, func(string, bool) string { return value })
}

func TestAFullCacheDropsOneEntry(t *testing.T) {
	t.Parallel()
	c := cache.New[int, string](3)
	for key := range 100 {
		store(c, key, "x")
		held := 0
		for k := range 100 {
			if _, ok := c.Get(k); ok {
				held++
			}
		}
		if _, ok := c.Get(key); !ok || held != min(key+1, 3) {
			t.Fatalf("%d entries after %d keys, the last one among them: %t", held, key+1, ok)
		}
	}
}

func TestAKeyThatIsStoredDropsNoOther(t *testing.T) {
	t.Parallel()
	c := cache.New[int, string](2)
	store(c, 1, "a")
	store(c, 2, "b")
	store(c, 2, "c")
	one, _ := c.Get(1)
	two, _ := c.Get(2)
	if one != "a" || two != "c" {
		t.Errorf("1 is %q, 2 is %q; want a, c", one, two)
	}
}

func TestUpdateGivesEveryoneTheFirstValue(t *testing.T) {
	t.Parallel()
	c := cache.New[int, *int](10)
	var all sync.WaitGroup
	got := make([]*int, 20)
	for i := range got {
		all.Go(func() {
			got[i] = c.Update(1, func(stored *int, ok bool) *int {
				if ok {
					return stored
				}
				return new(int)
			})
		})
	}
	all.Wait()
	for i := range got {
		if got[i] == nil || got[i] != got[0] {
			t.Fatalf("goroutine %d has another value", i)
		}
	}
}
