package schedule

import "testing"

// In the ready queue of a busy node, each endpoint that starts something is popped and pushed
// again.
func TestAQueueThatTurnsRoundIsSeldomCopied(t *testing.T) {
	t.Parallel()
	const n, rounds = 1024, 20
	q := queue{kind: inReady, eps: make([]*endpoint, 0, n)}
	for range n {
		q.push(&endpoint{})
	}
	copied := 0
	for range rounds * n {
		first := q.eps[q.head]
		if q.pop() != first {
			t.Fatal("the first in the queue is not popped first")
		}
		was := q.head
		if q.push(first); q.head < was {
			copied += q.len()
		}
		if q.len() != n || q.eps[len(q.eps)-1] != first {
			t.Fatalf("%d endpoints in the queue, want %d, the popped one last", q.len(), n)
		}
		for _, ep := range q.eps[len(q.eps):min(len(q.eps)+1, cap(q.eps))] {
			if ep != nil {
				t.Fatal("an endpoint is left behind the end of the queue")
			}
		}
	}
	if copied > 2*rounds*n || cap(q.eps) > 4*n {
		t.Errorf("%d endpoints were copied for %d pushes, and there is capacity for %d of %d", copied, rounds*n, cap(q.eps), n)
	}
}
