package baseline

import (
	"bufio"
	"bytes"
	"context"
)

// change is a file that has changed.
type change struct {
	path        string
	before, now *entry // nil: the file does not exist
}

// compareFiles walks the host and the lines of the baseline in parallel.
func (h Host) compareFiles(ctx context.Context, lines *bufio.Scanner) ([]change, error) {
	m := merge{h: h, lines: lines}
	m.next()
	err := h.walk(ctx, m.see)
	for err == nil {
		var before *entry
		if before, err = m.before(); before == nil {
			break
		}
		m.add(change{path: before.path, before: before})
		m.next()
	}
	return m.changes, err
}

// merge compares a walk with the lines of a baseline, both in order.
type merge struct {
	h       Host
	lines   *bufio.Scanner
	more    bool   // whether there is a line
	entry   *entry // the parsed line; nil if it has not been parsed yet
	now     []byte // the walk's last entry as a line
	changes []change
}

func (m *merge) next() { m.more, m.entry = m.lines.Scan(), nil }

// before returns the entry of the current line; nil if there are no more lines.
func (m *merge) before() (*entry, error) {
	if !m.more {
		return nil, m.lines.Err()
	}
	if m.entry == nil {
		e, err := parse(m.lines.Text())
		if err != nil {
			return nil, err
		}
		m.entry = &e
	}
	return m.entry, nil
}

// see compares the next entry of the walk with the baseline. Nearly all files are unchanged: their lines are equal, and
// see does not parse them.
func (m *merge) see(now entry) error {
	m.now = now.appendTo(m.now[:0])
	if m.more && bytes.Equal(m.lines.Bytes(), m.now[:len(m.now)-1]) {
		m.next()
		return nil
	}
	return m.differs(now)
}

func (m *merge) differs(now entry) error {
	before, err := m.before()
	for ; before != nil && before.path != now.path && order(before.path, now.path) < 0; before, err = m.before() {
		m.add(change{path: before.path, before: before})
		m.next()
	}
	switch {
	case err != nil:
		return err
	case before == nil || before.path != now.path:
		m.add(change{path: now.path, now: &now})
		return nil
	case before.differs(now):
		m.add(change{path: now.path, before: before, now: &now})
	}
	m.next()
	return nil
}

func (m *merge) add(c change) {
	restored := c.before != nil && c.now != nil && m.h.Known != nil && m.h.Known(c.path)
	if len(m.changes) < mostFound && !restored {
		m.changes = append(m.changes, c)
	}
}
