package main

import (
	"fmt"
	"io"
	"os"
)

// maxInput limits what is read from a file or standard input.
const maxInput = 20 << 20

// readInput reads a file, or standard input for "-".
func (a *app) readInput(path string) ([]byte, error) {
	in := a.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s has more than %d bytes", path, maxInput)
	}
	return data, err
}
