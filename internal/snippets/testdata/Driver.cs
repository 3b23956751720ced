using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Text;

public static class Driver
{
    public static void Main()
    {
        for (var line = Console.ReadLine(); line != null; line = Console.ReadLine())
        {
            var fields = line.Split('\t');
            var headers = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            for (var i = 3; i < fields.Length; i += 2)
            {
                headers[fields[i]] = Encoding.UTF8.GetString(Bytes(fields[i + 1]));
            }
            Func<string, string> header = name => headers.TryGetValue(name, out var value) ? value : null;
            var secrets = fields[2].Split('.').Skip(1).Select(s => Encoding.UTF8.GetString(Bytes(s))).ToList();
            try
            {
                var verify = Assembly.GetExecutingAssembly().GetType(fields[0] + ".Webhooks").GetMethod("Verify");
                Console.WriteLine(verify.Invoke(null, new object[] { header, Bytes(fields[1]), secrets }).ToString().ToLowerInvariant());
            }
            catch (TargetInvocationException error)
            {
                Console.WriteLine(error.InnerException.Message);
            }
        }
    }

    static byte[] Bytes(string hex)
    {
        return Enumerable.Range(0, hex.Length / 2).Select(i => Convert.ToByte(hex.Substring(2 * i, 2), 16)).ToArray();
    }
}
