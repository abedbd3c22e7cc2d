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

// program is one file of an archive for people.
type program struct {
	// name is where it stands below the archive's only folder.
	name string
	// file is where it is now.
	file string
	mode int64
}

// packed puts programs below the folder capstan-VERSION of a compressed tar archive, where they find each other:
// unpacking it is the installation.
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
