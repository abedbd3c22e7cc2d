package release

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"slices"
	"time"
)

// program is one file of a binary archive.
type program struct {
	// name is the path below the archive's only directory.
	name string
	// file is the path of the program on this machine.
	file string
	mode int64
}

// packed returns a compressed tar archive of programs in the directory capstan-VERSION. The programs find each other
// there, so unpacking the archive installs them.
func packed(version string, date time.Time, programs []program) ([]byte, error) {
	entries := make([]entry, 0, len(programs))
	for _, p := range programs {
		data, err := os.ReadFile(p.file)
		if err != nil {
			return nil, fmt.Errorf("reading what goes into the archive: %w", err)
		}
		entries = append(entries, entry{path.Join("capstan-"+version, p.name), p.mode, data})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	content, err := tape(date, entries)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out) // its header has neither a name nor a date
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
