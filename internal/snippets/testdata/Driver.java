import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

public final class Driver {
    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            String[] fields = line.split("\t", -1);
            Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            for (int i = 3; i < fields.length; i += 2) {
                headers.put(fields[i], text(fields[i + 1]));
            }
            UnaryOperator<String> header = headers::get;
            List<String> secrets = Stream.of(fields[2].split("\\.", -1)).skip(1).map(Driver::text).toList();
            try {
                System.out.println(Class.forName(fields[0] + ".Webhooks")
                        .getMethod("verify", UnaryOperator.class, byte[].class, List.class)
                        .invoke(null, header, HexFormat.of().parseHex(fields[1]), secrets));
            } catch (ReflectiveOperationException error) {
                System.out.println(error.getCause());
            }
        }
    }

    private static String text(String hex) {
        return new String(HexFormat.of().parseHex(hex), StandardCharsets.UTF_8);
    }
}
