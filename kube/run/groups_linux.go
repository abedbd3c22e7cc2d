package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// openGroups opens the files through which processes join control groups.
func openGroups(dirs []string) ([]*os.File, error) {
	var files []*os.File
	for _, dir := range dirs {
		f, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err != nil {
			closeAll(files...)
			return nil, fmt.Errorf("opening a control group: %w", err)
		}
		files = append(files, f)
	}
	return files, nil
}

// join puts a process into the control groups. Only the program is limited: its supervisor must survive to report how
// it ended.
func (s *starter) join(pid int) error {
	for _, f := range s.groups {
		if _, err := f.WriteString(strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("joining a control group: %w", err)
		}
	}
	return nil
}
