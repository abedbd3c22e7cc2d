package metricsapi

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Metrics of a kubelet's /metrics/resource.
const (
	nodeCPU         = "node_cpu_usage_seconds_total"
	nodeMemory      = "node_memory_working_set_bytes"
	containerCPU    = "container_cpu_usage_seconds_total"
	containerMemory = "container_memory_working_set_bytes"
	containerStart  = "container_start_time_seconds"
)

// bodyLimit bounds how many bytes are read from a kubelet.
const bodyLimit = 16 << 20

// A container is identified by its names. All are empty for a Node's own figures.
type container struct{ namespace, pod, name string }

// A point is what a container or a Node has used up to a point in time.
type point struct {
	at     time.Time // when the kubelet measured it
	cpu    float64   // seconds of processor time since start
	memory float64   // bytes
	start  time.Time // when the container started; zero if unknown
}

// parse reads the figures of one Node from the text of its kubelet. Metrics without a time count as measured
// now.
func parse(r io.Reader, now time.Time) (map[container]point, error) {
	points := map[container]point{}
	limited := &io.LimitedReader{R: r, N: bodyLimit}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		name, labels, value, at, ok := parseLine(lines.Text())
		if !ok {
			continue
		}
		key := container{}
		if strings.HasPrefix(name, "container_") {
			key = container{labels["namespace"], labels["pod"], labels["container"]}
		}
		p := points[key]
		switch name {
		case nodeCPU, containerCPU:
			p.cpu, p.at = value, now
			if at > 0 {
				p.at = time.UnixMilli(at)
			}
		case nodeMemory, containerMemory:
			p.memory = value
		case containerStart:
			p.start = time.UnixMicro(int64(value * 1e6))
		default:
			continue
		}
		points[key] = p
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the metrics: %w", err)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("reading the metrics: more than %d MiB", bodyLimit>>20)
	}
	return points, nil
}

// parseLine splits a line such as
//
//	container_cpu_usage_seconds_total{container="c",namespace="n",pod="p"} 1.5 1700000000000
//
// whose time is optional. It returns false for comments and for what it doesn't understand.
func parseLine(line string) (name string, labels map[string]string, value float64, at int64, ok bool) {
	end := strings.LastIndexByte(line, '}') + 1 // values of labels may contain spaces
	if end == 0 {
		end = strings.IndexByte(line, ' ')
	}
	if end <= 0 || line[0] == '#' {
		return "", nil, 0, 0, false
	}
	name, list, _ := strings.Cut(strings.TrimSuffix(line[:end], "}"), "{")
	labels = map[string]string{}
	for pair := range strings.SplitSeq(list, ",") { // names in these labels contain no commas and no quotes
		key, quoted, _ := strings.Cut(pair, "=")
		labels[key] = strings.Trim(quoted, `"`)
	}
	numbers := strings.Fields(line[end:])
	if len(numbers) == 0 {
		return "", nil, 0, 0, false
	}
	value, err := strconv.ParseFloat(numbers[0], 64)
	if err != nil || value != value || value < 0 {
		return "", nil, 0, 0, false
	}
	if len(numbers) > 1 {
		at, _ = strconv.ParseInt(numbers[1], 10, 64) // at stays 0 if the line has no time
	}
	return name, labels, value, at, true
}
