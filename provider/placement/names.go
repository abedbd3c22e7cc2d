package placement

// names is a set of names with fast access to its first one: a heap, and an index of the names in it.
type names struct {
	heap []string
	at   map[string]int
}

func (n *names) add(name string) {
	if n.at == nil {
		n.at = map[string]int{}
	}
	if _, has := n.at[name]; has {
		return
	}
	n.heap = append(n.heap, name)
	n.at[name] = len(n.heap) - 1
	n.up(len(n.heap) - 1)
}

func (n *names) remove(name string) {
	i, has := n.at[name]
	if !has {
		return
	}
	last := len(n.heap) - 1
	n.swap(i, last)
	n.heap[last] = ""
	n.heap = n.heap[:last]
	delete(n.at, name)
	if i < last {
		n.down(n.up(i))
	}
}

// first returns the alphabetically first name. The set must not be empty.
func (n *names) first() string { return n.heap[0] }

func (n *names) len() int { return len(n.heap) }

func (n *names) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if n.heap[parent] <= n.heap[i] {
			break
		}
		n.swap(i, parent)
		i = parent
	}
	return i
}

func (n *names) down(i int) {
	for {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(n.heap) && n.heap[child] < n.heap[least] {
				least = child
			}
		}
		if least == i {
			return
		}
		n.swap(i, least)
		i = least
	}
}

func (n *names) swap(i, j int) {
	n.heap[i], n.heap[j] = n.heap[j], n.heap[i]
	n.at[n.heap[i]], n.at[n.heap[j]] = i, j
}
