package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const maxClasses = 64

// class returns the class with the name. If it does not exist, class makes it.
func (s *sink) class(name string) (*class, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.classes[name]; ok {
		return c, nil
	}
	if len(s.classes) == maxClasses {
		return nil, fmt.Errorf("more than %d classes", maxClasses)
	}
	c := &class{name: name}
	c.answer.Store(newAnswer(http.StatusNoContent))
	if s.distinct {
		c.ids = map[uint64]struct{}{}
	}
	s.classes[name] = c
	return c, nil
}

// each calls f for every class.
func (s *sink) each(f func(*class)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.classes {
		f(c)
	}
}

// control does what a path below /-/ asks for, and returns JSON.
func (s *sink) control(question string) ([]byte, error) {
	u, err := url.Parse(question)
	if err != nil {
		return nil, err
	}
	switch u.Path {
	case "mark":
		now := time.Now()
		s.each(func(c *class) { c.ended(now) })
		return []byte("{}"), nil
	case "reset":
		s.each((*class).reset)
		return []byte("{}"), nil
	}
	c, err := s.class(u.Query().Get("class"))
	if err != nil {
		return nil, err
	}
	switch u.Path {
	case "count":
		return json.Marshal(c.counts())
	case "stats":
		return json.Marshal(c.stats())
	case "answer":
		how, err := readAnswer(u.Query())
		if err != nil {
			return nil, err
		}
		c.answer.Store(how)
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("there is no control %q", u.Path)
}

func readAnswer(query url.Values) (*answer, error) {
	status := http.StatusNoContent
	var err error
	if text := query.Get("status"); text != "" {
		if status, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
	}
	how := newAnswer(status)
	how.never = query.Get("never") == "true"
	if text := query.Get("after"); text != "" {
		if how.after, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("after: %w", err)
		}
	}
	return how, nil
}
