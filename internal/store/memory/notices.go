package memory

import (
	"context"
	"maps"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// noticeKey has the fields that are unique for each notice.
type noticeKey struct {
	kind               postrider.NoticeKind
	object, occurrence string
}

func noticeKeyOf(n postrider.Notice) noticeKey { return noticeKey{n.Kind, n.Object, n.Occurrence} }

// PutNotices implements [store.Notices].
func (s *Store) PutNotices(_ context.Context, notices []postrider.Notice) ([]postrider.Notice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putNoticesLocked(notices), nil
}

// putNoticesLocked stores the notices that are new, and returns them.
func (s *Store) putNoticesLocked(notices []postrider.Notice) (put []postrider.Notice) {
	for _, n := range notices {
		first, told := s.noticed[noticeKeyOf(n)]
		if told && first != n.ID {
			continue
		}
		n.CreatedAt, n.Details = n.ID.Time(), maps.Clone(n.Details)
		s.notices.put(n.ID, n)
		s.noticed[noticeKeyOf(n)] = n.ID
		put = append(put, cloneNotice(n))
	}
	return put
}

func cloneNotice(n postrider.Notice) postrider.Notice {
	n.Details = maps.Clone(n.Details)
	return n
}

// Notices implements [store.Notices].
func (s *Store) Notices(_ context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.notices, q.Paging, postrider.NoticeID{}, func(n postrider.Notice) (postrider.Notice, bool) {
		return cloneNotice(n), within(q.Span, n.CreatedAt) && selects(q.Account, n.Account) && selects(q.Kind, n.Kind) &&
			selects(q.Object, n.Object)
	})
}

// NoticesPublished implements [store.Notices].
func (s *Store) NoticesPublished(context.Context) (postrider.NoticeID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published, nil
}

// SetNoticesPublished implements [store.Notices].
func (s *Store) SetNoticesPublished(_ context.Context, last postrider.NoticeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published = store.Later(s.published, last)
	return nil
}
