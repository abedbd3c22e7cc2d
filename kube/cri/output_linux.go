package cri

import (
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/cri/process"
)

// outputNames are the named pipes of a container's output.
var outputNames = [2]string{"stdout", "stderr"}

// pipes are the pipes of a container's output; the container's process gets the writers.
type pipes struct{ readers, writers [2]*os.File }

// stream is an output that is copied to the log.
type stream struct {
	name logfile.Stream
	from *os.File
}

// openOutput opens the pipes of a container before its start.
func openOutput(dir string) (*pipes, error) {
	var o pipes
	var err error
	for i, name := range outputNames {
		if o.readers[i], o.writers[i], err = process.Pipe(filepath.Join(dir, name)); err != nil {
			o.closeReaders()
			o.closeWriters()
			return nil, err
		}
	}
	return &o, nil
}

// adoptOutput opens the pipes of a running container.
func adoptOutput(dir string) (*pipes, error) {
	var o pipes
	var err error
	for i, name := range outputNames {
		if o.readers[i], err = process.Reader(filepath.Join(dir, name)); err != nil {
			o.closeReaders()
			return nil, err
		}
	}
	return &o, nil
}

func (o *pipes) streams() []stream {
	return []stream{{logfile.Stdout, o.readers[0]}, {logfile.Stderr, o.readers[1]}}
}

func (o *pipes) closeReaders() { closeFiles(o.readers) }
func (o *pipes) closeWriters() { closeFiles(o.writers) }

func closeFiles(files [2]*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
