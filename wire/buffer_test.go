package wire

import "testing"

// TestWideBuffers: there are mostWide at once, and who gets none has one of the class below.
func TestWideBuffers(t *testing.T) {
	if n := wideOut.Load(); n != 0 {
		t.Fatalf("%d were not given back before", n)
	}
	var all []*buffer
	for range mostWide + 3 {
		all = append(all, getClass(wide))
	}
	for i, b := range all {
		want := int8(wide)
		if i >= mostWide {
			want = wide - 1
		}
		if b.class != want || len(b.b) != bufferSizes[want] {
			t.Errorf("buffer %d is of class %d and has %d bytes", i, b.class, len(b.b))
		}
	}
	for _, b := range all {
		putBuffer(b)
	}
	if n := wideOut.Load(); n != 0 {
		t.Errorf("%d are still counted", n)
	}
	b := getClass(wide)
	if b.class != wide {
		t.Error("none has come back")
	}
	putBuffer(b)
}

// TestWithoutWideBuffers reads as much in frames, whatever class it has.
func TestWithoutWideBuffers(t *testing.T) {
	wideOut.Store(mostWide)
	defer wideOut.Store(0)
	TestProducesTogether(t)
	f := newFrameReader(&trickle{manyFrames(400, 3000), func() int { return 1 << 20 }}, 1<<20)
	for range 400 {
		if _, _, err := f.next(); err != nil {
			t.Fatal(err)
		}
		b, buf, err := f.body(true)
		if err != nil {
			t.Fatal(err)
		}
		f.done(b, buf)
	}
	if f.class != wide || f.ahead != nil && f.ahead.class >= wide {
		t.Errorf("class %d is wanted", f.class)
	}
	f.close()
}

// manyFrames are so many Produces, one after the other.
func manyFrames(n, size int) (all []byte) {
	for i := range int32(n) {
		all = append(all, frame(keyProduce, 7, i, string(make([]byte, size)))...)
	}
	return all
}
