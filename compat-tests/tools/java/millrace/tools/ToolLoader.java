package millrace.tools;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;

/**
 * Loads the tools' own classes, and those of the library that some parse their command lines with, so that System.exit in them is Kafka's Exit.exit, which the runner can answer; the rest of
 * the class path is left alone. Both methods have the same shape: it is enough to turn the reference in the class's table
 * of constants to the other class.
 */
final class ToolLoader extends ClassLoader {
    private static final String TOOLS = "org.apache.kafka.tools.";
    private static final String PARSER = "net.sourceforge.argparse4j.";
    private static final String EXIT = "org/apache/kafka/common/utils/internals/Exit";

    ToolLoader(ClassLoader parent) {
        super(parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith(TOOLS) && !name.startsWith(PARSER)) {
            return super.loadClass(name, resolve);
        }
        synchronized (getClassLoadingLock(name)) {
            Class<?> c = findLoadedClass(name);
            if (c == null) {
                c = define(name);
            }
            if (resolve) {
                resolveClass(c);
            }
            return c;
        }
    }

    private Class<?> define(String name) throws ClassNotFoundException {
        try (InputStream in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
            if (in == null) {
                throw new ClassNotFoundException(name);
            }
            byte[] b = in.readAllBytes();
            b = turnExit(name, b);
            return defineClass(name, b, 0, b.length);
        } catch (IOException e) {
            throw new ClassNotFoundException(name, e);
        }
    }

    /** Gives the class's table of constants (JVMS 4.4) another class for each System.exit in it. */
    private static byte[] turnExit(String name, byte[] b) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(b));
        in.skipBytes(8);
        int n = in.readUnsignedShort();
        String[] text = new String[n];
        int[] tag = new int[n];
        int[] first = new int[n];
        int[] second = new int[n];
        int[] at = new int[n];
        for (int i = 1; i < n; i++) {
            at[i] = b.length - in.available();
            tag[i] = in.readUnsignedByte();
            switch (tag[i]) {
                case 1 -> text[i] = in.readUTF();
                case 7, 8, 16, 19, 20 -> first[i] = in.readUnsignedShort();
                case 9, 10, 11, 12, 17, 18 -> {
                    first[i] = in.readUnsignedShort();
                    second[i] = in.readUnsignedShort();
                }
                case 15 -> in.skipBytes(3);
                case 3, 4 -> in.skipBytes(4);
                case 5, 6 -> {
                    in.skipBytes(8);
                    i++;
                }
                default -> throw new IOException(name + " has a constant of the unknown kind " + tag[i]);
            }
        }
        int end = b.length - in.available();
        boolean turned = false;
        for (int i = 1; i < n; i++) {
            if (tag[i] == 10 && "java/lang/System".equals(text[first[first[i]]]) && "exit".equals(text[first[second[i]]])) {
                b[at[i] + 1] = (byte) ((n + 1) >> 8);
                b[at[i] + 2] = (byte) (n + 1);
                turned = true;
            }
        }
        if (!turned) {
            return b;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.write(b, 0, 8);
        out.writeShort(n + 2);
        out.write(b, 10, end - 10);
        out.writeByte(1);
        out.writeUTF(EXIT);
        out.writeByte(7);
        out.writeShort(n);
        out.write(b, end, b.length - end);
        return bytes.toByteArray();
    }
}
